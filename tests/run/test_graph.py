"""The graph of a run's artifacts: what is made, in which order, by whom, and what is left as it is."""

import pytest

from vbs_cli.errors import DamagedArtifact, MissingArtifact
from vbs_cli.run import Artifact, Graph, Recipe, Store

CONTEXT = object()


class Maker:
    """Writes an artifact as its name and the bytes of its inputs, and remembers what it was asked for."""

    def __init__(self, store):
        self.store = store
        self.content = None  # the same bytes for all, where a test wants that
        self.calls = []

    def __call__(self, context, due, done):
        assert context is CONTEXT
        self.calls.append(([artifact.name for artifact in due], [artifact.name for artifact in done]))
        for artifact in due:
            inputs = [self.store.read(name) for name in artifact.recipe.inputs if name in self.store.entries]
            width = str(artifact.recipe.settings.get("width", "")).encode()
            data = self.content or b"+".join([artifact.name.encode(), width, *inputs])
            self.store.write(artifact.name, data, artifact.recipe)

    @property
    def made(self):
        """Names of all that it wrote, in order."""
        return [name for due, _ in self.calls for name in due]


def artifact(make, name, *inputs, stage="cook", **settings):
    return Artifact(name, Recipe(stage, settings, inputs), make)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path)


@pytest.fixture
def cook(store):
    return Maker(store)


@pytest.fixture
def serve(store):
    return Maker(store)


@pytest.fixture
def graph(store, cook, serve):
    """Two of a kind, something made from each by another maker, and one thing apart."""
    return Graph(store, [
        artifact(cook, "a", width=4), artifact(cook, "b"),
        artifact(serve, "on a", "a", stage="serve"), artifact(serve, "on both", "on a", "b", stage="serve"),
        artifact(cook, "alone"),
    ])  # fmt: skip


@pytest.fixture
def finished(graph, cook, serve):
    graph.make(CONTEXT, [each.name for each in graph])
    cook.calls.clear()
    serve.calls.clear()
    return graph


def wider(graph, cook):
    """The same with another setting of "a", as a later command would plan it."""
    graph.add([artifact(cook, "a", width=8)])
    return graph


def test_everything_is_made_after_what_it_is_made_from(graph, store):
    order = []
    for each in graph:
        for name in each.recipe.inputs:
            assert name in order
        order.append(each.name)
    graph.make(CONTEXT, order)
    assert store.read("on both") == b"on both++on a++a+4+b+"
    assert {state.kind for state in graph.states().values()} == {"up to date"}


def test_behind_some_names_are_those_and_all_that_they_are_made_from_in_order(graph):
    assert [each.name for each in graph.behind(["on both"])] == ["a", "b", "on a", "on both"]
    assert [each.name for each in graph.behind(["on a", "a"])] == ["a", "on a"]
    assert [each.name for each in graph.behind(["alone"])] == ["alone"]
    assert graph.behind([]) == []


def test_only_what_was_asked_for_and_what_is_behind_it_is_made(graph, store):
    graph.make(CONTEXT, ["on a"])
    assert store.entries.keys() == {"a", "on a"}


def test_stages_name_their_artifacts(graph):
    assert graph.stage("serve") == ["on a", "on both"]
    assert graph.stage("serve", "cook") == [each.name for each in graph]
    assert graph.stage("sell") == []


def test_what_is_up_to_date_is_left_alone(finished, store, cook, serve):
    written = store.written
    assert finished.due(finished) == []
    finished.make(CONTEXT, [each.name for each in finished])
    assert store.written == written
    assert cook.calls == serve.calls == []


def test_a_changed_setting_makes_due_what_depends_on_it_and_nothing_else(finished, cook):
    graph = wider(finished, cook)
    assert [each.name for each in graph.due(graph)] == ["a", "on a", "on both"]
    # Those that are not looked at cannot be due.
    assert [each.name for each in graph.due(graph.behind(["a"]))] == ["a"]


def test_states_tell_the_first_reason_and_what_stands_behind_it(finished, store, cook):
    (store.folder / "b").unlink()
    told = {name: str(state) for name, state in wider(finished, cook).states().items()}
    assert told == {
        "a": "stale: width was 4, now 8",
        "b": "missing",
        "on a": "stale: a is stale",
        "on both": "stale: on a is stale",
        "alone": "up to date",
    }


def test_another_revision_of_the_code_is_a_reason_of_its_own(finished, cook):
    finished.add([Artifact("alone", Recipe("cook", {}, revisions={"recipe book": 2}), cook)])
    assert str(finished.states()["alone"]) == "stale: the code of recipe book has changed (none, now revision 2)"
    finished.make(CONTEXT, ["alone"])
    finished.add([Artifact("alone", Recipe("cook", {}, revisions={"recipe book": 3}), cook)])
    assert str(finished.states()["alone"]) == "stale: the code of recipe book has changed (revision 2, now revision 3)"


def test_neighbours_with_one_maker_are_made_in_one_call_which_hears_of_those_that_are_there(graph, store, cook, serve):
    store.write("b", b"there", graph["b"].recipe)
    graph.make(CONTEXT, ["on both"])
    assert cook.calls == [(["a"], ["b"])]
    assert serve.calls == [(["on a", "on both"], [])]


def test_one_maker_is_called_twice_where_another_works_in_between(graph, cook, serve):
    graph.make(CONTEXT, [each.name for each in graph])
    assert cook.calls == [(["a", "b"], []), (["alone"], [])]
    assert serve.calls == [(["on a", "on both"], [])]


def test_a_maker_with_nothing_to_do_is_not_called(finished, store, cook, serve):
    (store.folder / "on both").unlink()
    finished.make(CONTEXT, ["on both"])
    assert cook.calls == []
    assert serve.calls == [(["on both"], ["on a"])]


def test_what_is_made_again_with_the_same_bytes_makes_nothing_behind_it_stale(finished, store, cook, serve):
    (store.folder / "a").unlink()
    assert [each.name for each in finished.due(finished)] == ["a", "on a", "on both"]  # as far as one can tell before
    finished.make(CONTEXT, ["on both"])
    assert cook.made == ["a"]
    assert serve.calls == []
    (store.folder / "a").unlink()
    cook.content = b"something else"
    finished.make(CONTEXT, ["on both"])
    assert serve.made == ["on a", "on both"]


def test_force_makes_again_what_is_named_and_leaves_what_has_the_same_inputs(finished, cook, serve):
    finished.make(CONTEXT, ["on both"], forced=["b", "on a"])
    assert cook.made == ["b"]
    # "on both" goes with "on a": the two are made in one call, before which nobody knows the bytes.
    assert serve.made == ["on a", "on both"]
    finished.make(CONTEXT, ["on a"], forced=["on both"])  # which was not asked for
    assert serve.made == ["on a", "on both"]


def test_a_cleaned_artifact_is_due_only_where_it_is_to_be_read(finished, store, cook, serve):
    store.clean(["a"])
    assert finished.due(finished) == []
    assert finished.states()["a"].kind == "cleaned"
    assert finished.states()["on a"].kind == "up to date"
    finished.make(CONTEXT, ["on both"])
    assert cook.calls == serve.calls == []
    assert [each.name for each in finished.due(finished.behind(["a"]), to_read=["a"])] == ["a"]
    finished.make(CONTEXT, ["on both"], to_read=["a"])
    assert cook.made == ["a"]
    assert serve.calls == []
    assert finished.states()["a"].kind == "up to date"


def test_a_cleaned_artifact_of_other_settings_is_stale(finished, store, cook):
    store.clean(["a"])
    graph = wider(finished, cook)
    assert [each.name for each in graph.due(graph)] == ["a", "on a", "on both"]


def test_damage_is_an_error_and_no_reason_to_make_again(finished, store, cook):
    (store.folder / "a").write_bytes(b"not what was written")
    with pytest.raises(DamagedArtifact, match="a is damaged"):
        finished.make(CONTEXT, ["on both"])
    assert cook.calls == []
    assert finished.states()["a"].kind == "damaged"


def test_what_is_made_alone_takes_its_inputs_as_they_are(finished, cook, serve):
    graph = wider(finished, cook)
    assert graph.make_alone(CONTEXT, ["on a"]) == []
    assert graph.make_alone(CONTEXT, ["on a"], forced=["on a"]) == ["on a"]
    assert cook.calls == []
    assert serve.made == ["on a"]


def test_what_was_made_before_a_failure_stays(graph, store):
    def fails(context, due, done):
        raise ZeroDivisionError

    graph.add([Artifact("on a", graph["on a"].recipe, fails)])
    with pytest.raises(ZeroDivisionError):
        graph.make(CONTEXT, ["on both"])
    assert {name for name, state in graph.states().items() if state.current} == {"a", "b"}


def test_unknown_names_are_refused_with_the_cure(graph, store, cook):
    assert "nothing" not in graph
    for use in (
        lambda: graph["nothing"],
        lambda: graph.behind(["a", "nothing"]),
        lambda: graph.make(CONTEXT, ["a", "nothing"]),
        lambda: graph.make_alone(CONTEXT, ["a", "nothing"]),
    ):
        with pytest.raises(MissingArtifact, match="nothing is not part of the run; vbs status lists what is"):
            use()
    assert cook.calls == []


def test_inputs_may_be_of_nobody_in_the_graph(store, cook):
    """As a figure is drawn from tables that another command keeps."""
    store.write("table", b"1", Recipe("bench", {}))
    graph = Graph(store, [artifact(cook, "figure", "table")])
    graph.make(CONTEXT, ["figure"])
    assert graph.states()["figure"].current
    store.write("table", b"2", Recipe("bench", {}))
    assert str(graph.states()["figure"]) == "stale: table has changed"


def test_what_is_entered_again_takes_the_place_of_the_first(graph, cook):
    before = [each.name for each in graph]
    wider(graph, cook)
    assert [each.name for each in graph] == before
    assert graph["a"].recipe.settings == {"width": 8}


def test_the_same_artifacts_have_other_states_in_another_store(finished, tmp_path):
    elsewhere = finished.on(Store(tmp_path / "elsewhere"))
    assert [each.name for each in elsewhere] == [each.name for each in finished]
    assert {state.kind for state in elsewhere.states().values()} == {"missing"}
    assert {state.kind for state in finished.states().values()} == {"up to date"}
