"""Round trips, and no trust in damaged bytes."""

import pandas as pd
import pytest
import torch

from vbs_cli import Logits
from vbs_cli.errors import DamagedArtifact
from vbs_cli.networks.training import Checkpoint, Epoch
from vbs_cli.run import formats


def test_records_come_back_bit_for_bit_with_their_extras():
    record = Logits.from_patches(torch.randn(5, 3, 8), labels=[0, 1, 2, 0, 1], kernel=2, keep_parts=True)
    tensors = {**record.tensors(), "norms": torch.rand(5, 2)}
    back = formats.logits_from(formats.logits_bytes(Logits.from_tensors(tensors)))
    assert back.tensors().keys() == tensors.keys()
    assert all(torch.equal(value, tensors[name]) for name, value in back.tensors().items())


def test_checkpoints_come_back_with_their_history():
    history = (Epoch(1, 0.1, 0.9, 0.2, 0.8, 1.5), Epoch(2, 1 / 3, 0.95, 0.1, 0.85, 1.25))
    checkpoint = Checkpoint({"0.weight": torch.randn(2, 2)}, {"0.weight.step": torch.tensor(3.0)}, {}, history)
    back = formats.checkpoint_from(formats.checkpoint_bytes(checkpoint))
    assert back.history == history
    assert torch.equal(back.weights["0.weight"], checkpoint.weights["0.weight"])
    assert back.optimizer["0.weight.step"] == 3


def test_tables_come_back_with_their_types():
    table = pd.DataFrame({"seed": [0, 1], "method": ["vbs", "vbs"], "value": [0.5, float("nan")]})
    pd.testing.assert_frame_equal(formats.table_from(formats.table_bytes(table)), table, check_dtype=False)


def test_a_flipped_bit_in_the_values_of_a_table_is_found():
    table = pd.DataFrame({"value": torch.rand(500).tolist()})
    data = bytearray(formats.table_bytes(table))
    data[200] ^= 1
    with pytest.raises(DamagedArtifact, match="parquet"):
        formats.table_from(bytes(data))


def test_a_pickle_is_not_a_tensor_file(tmp_path):
    torch.save({"a": torch.ones(2)}, tmp_path / "x.pt")
    with pytest.raises(DamagedArtifact, match="safetensors"):
        formats.tensors_from((tmp_path / "x.pt").read_bytes())


def test_notes_stand_beside_tables_and_tensors_and_the_same_ones_give_the_same_bytes():
    table, tensors = pd.DataFrame({"value": [0.1, 0.2]}), {"a": torch.ones(2)}
    notes = {f"cell {i}": f"{i:016x}" for i in range(20)}
    turned = dict(reversed(notes.items()))
    for write, read in (
        (lambda n: formats.table_bytes(table, n), formats.table_notes),
        (lambda n: formats.tensors_bytes(tensors, notes=n), formats.tensors_notes),
    ):
        assert read(write(notes)) == notes
        assert write(notes) == write(turned)
    pd.testing.assert_frame_equal(formats.table_from(formats.table_bytes(table, notes)), table)
    assert formats.table_notes(formats.table_bytes(table)) == {}
