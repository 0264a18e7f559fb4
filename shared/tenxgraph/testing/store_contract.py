"""What every store must do, as tests: derive from :class:`StoreContract` and give it a store.

In a test module of yours::

    import pytest
    from tenxgraph.testing.store_contract import StoreContract


    class TestMyStore(StoreContract):
        @pytest.fixture(autouse=True)
        def harness_of_my_store(self):
            self.harness = MyHarness()  # an empty store and a way to let its time pass, for each test
            yield
            self.harness.close()

The suite itself needs no pytest. For the values behind a failed assertion, call
``pytest.register_assert_rewrite("tenxgraph.testing.contract")`` in your conftest, before anything imports it.
"""

from tenxgraph.testing.contract.admission import AdmissionContract
from tenxgraph.testing.contract.attempts import ClaimContract, CommitContract, GiveBackContract
from tenxgraph.testing.contract.deaths import DeathContract, HandBackContract, SuspectContract
from tenxgraph.testing.contract.effects import MediaContract, RecordContract, RenewEffectContract, ReserveContract
from tenxgraph.testing.contract.harness import FakeClock, MemoryHarness, StoreHarness
from tenxgraph.testing.contract.people import ContinueContract, ResumeContract
from tenxgraph.testing.contract.reading import DeleteContract, EventContract, StateContract, ViewContract
from tenxgraph.testing.contract.recovery import DueContract, LeaseContract, ResendContract
from tenxgraph.testing.contract.retention import RetentionContract
from tenxgraph.testing.contract.settling import QuestionContract, SettleContract
from tenxgraph.testing.contract.steps import AdvanceContract
from tenxgraph.testing.contract.stopping import CancelContract, StopContract
from tenxgraph.testing.contract.strategies import StrategyContract
from tenxgraph.testing.contract.turns import TurnContract
from tenxgraph.testing.contract.versions import EditContract, ForkContract

__all__ = ["FakeClock", "MemoryHarness", "StoreContract", "StoreHarness"]


class StoreContract(
    AdmissionContract,
    StrategyContract,
    ClaimContract,
    CommitContract,
    GiveBackContract,
    AdvanceContract,
    SettleContract,
    QuestionContract,
    ResumeContract,
    ReserveContract,
    RenewEffectContract,
    RecordContract,
    TurnContract,
    MediaContract,
    StopContract,
    CancelContract,
    ContinueContract,
    LeaseContract,
    DeathContract,
    SuspectContract,
    HandBackContract,
    ResendContract,
    DueContract,
    StateContract,
    EventContract,
    ViewContract,
    DeleteContract,
    ForkContract,
    EditContract,
    RetentionContract,
):
    """All rules of the port. ``self.harness`` must be set before each test (see :class:`StoreHarness`)."""

    harness: StoreHarness
