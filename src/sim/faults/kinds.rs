//! Every kind of fault, and of what users and nodes do, that the simulator counts. Each has its name here alone.

use super::{ClockFault, Fault, NodeFault, ServerFault};
use crate::place::Machine;
use crate::rot::Rot;

/// Declares the kinds with the names under which they are printed.
macro_rules! kinds {
    ($($kind:ident = $name:literal),+ $(,)?) => {
        /// What is counted when it strikes. One that never did over all seeds fails the run.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Kind {
            $($kind),+
        }

        impl Kind {
            pub const ALL: &[Kind] = &[$(Kind::$kind),+];

            pub fn name(self) -> &'static str {
                match self {
                    $(Kind::$kind => $name),+
                }
            }
        }
    };
}

impl Fault {
    /// What is counted when it strikes: a fault without a kind does not compile, and a kind that never strikes fails the run.
    pub fn kind(&self) -> Kind {
        match self {
            Fault::Server(_, fault) => fault.kind(),
            Fault::Node(_, fault) => fault.kind(),
            Fault::Clock(_, ClockFault::Stepped) => Kind::ClockStepped,
            Fault::Clock(_, ClockFault::Lost) => Kind::ClockAt1970,
            Fault::Clock(_, ClockFault::Drifts) => Kind::ClockDrifts,
            Fault::Clock(_, ClockFault::WrongAtBoot) => Kind::ClockWrongAtBoot,
            Fault::Cut(cut) => cut.kind,
            Fault::Rotten(Rot { machine: Machine::Server(_), .. }) => Kind::ServerBitsRotten,
            Fault::Rotten(Rot { machine: Machine::Node(_), .. }) => Kind::ClientBitsRotten,
        }
    }
}

impl ServerFault {
    fn kind(&self) -> Kind {
        match self {
            ServerFault::Killed => Kind::ServerKilled,
            ServerFault::PowerCut { .. } => Kind::ServerPowerCut,
            ServerFault::DiskFull => Kind::ServerDiskFull,
            ServerFault::DiskError { .. } => Kind::ServerDiskError,
            ServerFault::SyncForgets { .. } => Kind::ServerSyncForgot,
            ServerFault::SlowDisk => Kind::ServerDiskSlow,
            ServerFault::Paused => Kind::ServerPaused,
            ServerFault::LosesWorker => Kind::WorkerLost,
        }
    }
}

impl NodeFault {
    fn kind(&self) -> Kind {
        match self {
            NodeFault::AgentKilled => Kind::AgentKilled,
            NodeFault::AgentDiskError { .. } => Kind::AgentDiskError,
            NodeFault::AgentSyncForgets { .. } => Kind::AgentSyncForgot,
            NodeFault::KeeperKilled => Kind::KeeperKilled,
            NodeFault::KeeperUpgraded => Kind::KeeperUpgraded,
            NodeFault::KeeperJournalRots { .. } => Kind::KeeperJournalRots,
            NodeFault::KeeperDiskError { .. } => Kind::KeeperDiskError,
            NodeFault::KeeperSyncForgets => Kind::KeeperSyncForgot,
            NodeFault::PowerCut { .. } => Kind::NodePowerCut,
            NodeFault::Paused => Kind::NodePaused,
            NodeFault::SlowDisk => Kind::NodeDiskSlow,
            NodeFault::DiskFull { .. } => Kind::NodeDiskFull,
        }
    }
}

kinds! {
    AllocationForgotten = "allocation forgotten",
    EvaluationForgotten = "evaluation forgotten",
    DeploymentForgotten = "deployment forgotten",
    DeadJobGone = "dead job gone",
    ServerKilled = "server killed",
    ServerPowerCut = "server power cut",
    ServerDiskFull = "server disk full",
    ServerDiskError = "server disk error",
    ServerSyncForgot = "server sync forgot",
    ServerDiskSlow = "server disk slow",
    ServerPaused = "server paused",
    ServerDidNotOpen = "server did not open",
    ServerLostSectors = "server lost sectors",
    ServerToreWrites = "server tore writes",
    ServerBitsRotten = "server bits rotten",
    ServerFoundRotAlive = "server found rot alive",
    ServerRefusedRottenState = "server refused rotten state",
    ServerStateRestored = "server state restored",
    ServerUpgraded = "server upgraded",
    RegionGrown = "region grown from one server",
    ServerDiskLost = "server disk lost",
    LostServerRemoved = "lost server removed",
    LiveServerRemoved = "live server removed",
    LeadershipTransferred = "leadership transferred",
    NodeDiskLost = "node disk lost",
    FeatureLevelRaised = "feature level raised",
    AgentKilled = "agent killed",
    AgentDiskError = "agent disk error",
    AgentSyncForgot = "agent sync forgot",
    AgentDidNotOpen = "agent did not open",
    ClientStoreLostSectors = "client store lost sectors",
    ClientStoreToreWrites = "client store tore writes",
    ClientBitsRotten = "client bits rotten",
    AgentRefusedRottenStore = "agent refused rotten store",
    ClientStoreRestored = "client store restored",
    NodeDiskFull = "node disk full",
    NodeDiskSlow = "node disk slow",
    KeeperRefusedForSpace = "keeper refused for space",
    KeeperKilled = "keeper killed",
    KeeperUpgraded = "keeper upgraded",
    KeeperDiskError = "keeper disk error",
    KeeperSyncForgot = "keeper sync forgot",
    KeeperStalled = "keeper stalled",
    KeeperJournalLostSectors = "keeper journal lost sectors",
    KeeperJournalRots = "keeper journal rots",
    KeeperKilledInAStart = "keeper killed in a start",
    StrayEnded = "stray ended",
    NodePowerCut = "node power cut",
    MachinePowerCut = "power cut of server and node",
    NodePaused = "node paused",
    FrameLostOnACutLink = "frame lost on a cut link",
    FrameLostOneWay = "frame lost one way",
    FrameLostBetweenGroups = "frame lost between groups",
    FrameLostBetweenServers = "frame lost between two servers",
    ServersConnectionBroken = "connection of two servers broken",
    NodesConnectionBroken = "connection of a node and a server broken",
    FrameLost = "frame lost",
    FrameDoubled = "frame doubled",
    FrameDelayed = "frame delayed",
    ClockStepped = "clock stepped",
    ClockDrifts = "clock drifts",
    ClockWrongAtBoot = "clock wrong at boot",
    ClockAt1970 = "clock at 1970",
    BootIn1970 = "boot in 1970",
    PidsCameRound = "PIDs came round",
    WorkerLost = "worker lost",
    NodeChanged = "node changed",
    NodeDisconnected = "node disconnected",
    AllocationUnknown = "allocation unknown",
    AllocationKnownAgain = "allocation known again",
    TaskCrashed = "task crashed",
    TaskCrashesAtOnce = "task crashes at once",
    TaskIgnoredItsSignal = "task ignored its signal",
    SiblingKilled = "sibling killed",
    LeaderEndedOthers = "leader ended others",
    SidecarsEnded = "sidecars ended",
    PrestartTaskStarted = "prestart task started",
    PoststartTaskStarted = "poststart task started",
    PoststopTaskStarted = "poststop task started",
    SidecarStarted = "sidecar started",
    PortHeld = "port held",
    CoreHeld = "core held",
    DeviceHeld = "device held",
    StartFailed = "start failed",
    StartFailedForGood = "start failed for good",
    RegisterStorm = "register storm",
    AskedOverHttp = "asked over HTTP",
    AskedThroughANode = "asked through a node",
    UnknownThroughANode = "unknown through a node",
    BlockingQueryWoken = "blocking query woken",
    EventStreamOpened = "event stream opened",
    EventLineRead = "event line read",
    EventReaderTooSlow = "event reader too slow",
    SessionOpened = "session opened",
    SessionEnded = "session ended",
    SessionEndedWithItsTask = "session ended with its task",
    SessionLeft = "session left",
    SessionLost = "session lost",
    SessionRefused = "session refused",
    SessionsFull = "sessions full",
    UnknownWriteRepeated = "unknown write repeated",
    DrainWithADeadline = "drain with a deadline",
    DrainWithoutADeadline = "drain without a deadline",
    DrainByForce = "drain by force",
    DrainEnded = "drain ended",
    NodeMadeIneligible = "node made ineligible",
    NodeMadeEligible = "node made eligible",
    LostNodePurged = "lost node purged",
    AlgorithmChanged = "algorithm changed",
    BrokerPaused = "broker paused",
    BrokerGoesOn = "broker goes on",
    EvaluationsDeleted = "evaluations deleted",
    JobReverted = "job reverted",
    VersionCalledGood = "version called good",
    DeploymentPaused = "deployment paused",
    DeploymentResumed = "deployment resumed",
    PromotionAskedFor = "promotion asked for",
    DeploymentFailedByAUser = "deployment failed by a user",
    HealthSetByAUser = "health set by a user",
    DeploymentSucceeded = "deployment succeeded",
    DeploymentCancelled = "deployment cancelled",
    DeploymentTooSlow = "deployment too slow",
    DeploymentUnhealthy = "deployment unhealthy",
    JobRolledBack = "job rolled back",
    LaunchByHand = "launch by hand",
    LaunchedInTime = "launched in time",
    LaunchesWereMissed = "launches were missed",
    LaunchSkipped = "launch skipped",
    AllocationPreempted = "allocation preempted",
    Dispatched = "dispatched",
    DispatchedTogether = "dispatched together",
    DispatchRepeated = "dispatch repeated",
    DispatchRepeatedUnanswered = "dispatch repeated unanswered",
    DispatchedJobForgotten = "dispatched job forgotten",
    Scaled = "scaled",
    ScalingBeyondLimits = "scaling beyond limits",
    ScalingBlockedByADeployment = "scaling blocked by a deployment",
    ScalingEventAlone = "scaling event alone",
}
