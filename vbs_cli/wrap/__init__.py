"""wrap"""
