"""Asserts of the contract suite are to be explained as those of a test module are."""

import pytest

pytest.register_assert_rewrite("autotrascale.testing.engine_contract")
