//! The names of events.
//!
//! The native events of the runtime have no name in a file; a reader identifies them by provider and number. This module has the
//! names that the common tools list for them: the task, then the opcode. The names of the collector's events are in their
//! declarations ([`clr`]). These names are used even if the file has others. All other events have their names from the
//! file. As the common tools do, the listing separates the opcode from such a name by a slash, whether the file declares the opcode or the
//! name ends with it.

use std::borrow::Cow;

use super::clr::{self, Provider};
use super::metadata::EventType;

/// The provider of the runtime's events.
pub const RUNTIME: &str = Provider::Runtime.name();
/// The provider of the state at the end of a trace.
pub const RUNDOWN: &str = Provider::Rundown.name();
/// The provider of the runtime's private events.
pub const PRIVATE: &str = Provider::Private.name();
/// The provider of the stacks sampled at regular intervals.
pub const SAMPLER: &str = "Microsoft-DotNETCore-SampleProfiler";

impl EventType {
    /// The name in listings, such as `GC/Start`; the event's number if it has no name.
    pub fn title(&self) -> Cow<'_, str> {
        match known(&self.provider, self.event) {
            Some(name) => name.into(),
            None if self.name.is_empty() => format!("EventID({})", self.event).into(),
            None => titled(&self.name, self.opcode),
        }
    }
}

/// A name, followed by a slash and its opcode if it has one.
fn titled(name: &str, opcode: Option<u8>) -> Cow<'_, str> {
    let ends = |end: &str| {
        let at = name.len().checked_sub(end.len())?;
        name.get(at..)?.eq_ignore_ascii_case(end).then(|| &name[..at])
    };
    let (stem, opcode) = match (opcode, ends("Start"), ends("Stop")) {
        (None | Some(1), Some(stem), _) => (stem, 1),
        (None | Some(2), _, Some(stem)) => (stem, 2),
        (opcode, ..) => (name, opcode.unwrap_or(0)),
    };
    let word = match opcode {
        0 => return name.into(),
        1 => "Start",
        2 => "Stop",
        3 => "DataCollectionStart",
        4 => "DataCollectionStop",
        5 => "Extension",
        6 => "Reply",
        7 => "Resume",
        8 => "Suspend",
        9 => "Transfer",
        number => return format!("{stem}/{number}").into(),
    };
    // The whole name is an opcode.
    if stem.is_empty() { word.to_owned().into() } else { format!("{stem}/{word}").into() }
}

/// The name of an event that the file does not name.
fn known(provider: &str, event: u32) -> Option<&'static str> {
    declared(provider, event).or_else(|| other(provider, event))
}

/// The name in the declaration of the event.
fn declared(provider: &str, event: u32) -> Option<&'static str> {
    let provider = Provider::named(provider)?;
    let is_it = |template: &&clr::Template| template.providers.contains(&provider) && template.events.contains(&event);
    clr::all().find(is_it).map(|template| template.name)
}

/// The name of an event without a declaration.
fn other(provider: &str, event: u32) -> Option<&'static str> {
    let names = match provider {
        RUNTIME => RUNTIME_NAMES,
        RUNDOWN => RUNDOWN_NAMES,
        PRIVATE => PRIVATE_NAMES,
        SAMPLER => return (event == 0).then_some("Thread/Sample"),
        _ => return None,
    };
    let place = names.binary_search_by_key(&event, |&(id, _)| u32::from(id)).ok()?;
    Some(names[place].1)
}

static RUNTIME_NAMES: &[(u16, &str)] = &[
    (34, "GC/PinPlugAtGCTime"),
    (36, "GC/BulkRootCCW"),
    (37, "GC/BulkRCW"),
    (44, "IOThreadCreation/Start"),
    (45, "IOThreadCreation/Stop"),
    (46, "IOThreadRetirement/Start"),
    (47, "IOThreadRetirement/Stop"),
    (50, "ThreadPoolWorkerThread/Start"),
    (51, "ThreadPoolWorkerThread/Stop"),
    (52, "ThreadPoolWorkerThreadRetirement/Start"),
    (53, "ThreadPoolWorkerThreadRetirement/Stop"),
    (54, "ThreadPoolWorkerThreadAdjustment/Sample"),
    (55, "ThreadPoolWorkerThreadAdjustment/Adjustment"),
    (56, "ThreadPoolWorkerThreadAdjustment/Stats"),
    (57, "ThreadPoolWorkerThread/Wait"),
    (58, "YieldProcessorMeasurement/Info"),
    (59, "ThreadPoolMinMaxThreads/Info"),
    (60, "ThreadPoolWorkingThreadCount/Start"),
    (61, "ThreadPool/Enqueue"),
    (62, "ThreadPool/Dequeue"),
    (63, "ThreadPool/IOEnqueue"),
    (64, "ThreadPool/IODequeue"),
    (65, "ThreadPool/IOPack"),
    (70, "Thread/Creating"),
    (71, "Thread/Running"),
    (72, "Method/MethodDetails"),
    (73, "TypeLoad/Start"),
    (74, "TypeLoad/Stop"),
    (80, "Exception/Start"),
    (81, "Contention/Start"),
    (82, "ClrStack/Walk"),
    (83, "AppDomainResourceManagement/MemAllocated"),
    (84, "AppDomainResourceManagement/MemSurvived"),
    (85, "AppDomainResourceManagement/ThreadCreated"),
    (86, "AppDomainResourceManagement/ThreadTerminated"),
    (87, "AppDomainResourceManagement/DomainEnter"),
    (88, "ILStub/StubGenerated"),
    (89, "ILStub/StubCacheHit"),
    (90, "Contention/LockCreated"),
    (91, "Contention/Stop"),
    (135, "Method/DCStartCompleteV2"),
    (136, "Method/DCStopCompleteV2"),
    (137, "Method/DCStartV2"),
    (138, "Method/DCStopV2"),
    (139, "Method/DCStartVerboseV2"),
    (140, "Method/DCStopVerboseV2"),
    (141, "Method/Load"),
    (142, "Method/Unload"),
    (143, "Method/LoadVerbose"),
    (144, "Method/UnloadVerbose"),
    (145, "Method/JittingStarted"),
    (146, "Method/MemoryAllocatedForJitCode"),
    (149, "Loader/ModuleDCStartV2"),
    (150, "Loader/ModuleDCStopV2"),
    (151, "Loader/DomainModuleLoad"),
    (152, "Loader/ModuleLoad"),
    (153, "Loader/ModuleUnload"),
    (154, "Loader/AssemblyLoad"),
    (155, "Loader/AssemblyUnload"),
    (156, "Loader/AppDomainLoad"),
    (157, "Loader/AppDomainUnload"),
    (159, "Method/R2RGetEntryPoint"),
    (160, "Method/R2RGetEntryPointStart"),
    (181, "StrongNameVerification/Start"),
    (182, "StrongNameVerification/Stop"),
    (183, "AuthenticodeVerification/Start"),
    (184, "AuthenticodeVerification/Stop"),
    (185, "Method/InliningSucceeded"),
    (186, "Method/InliningFailedAnsi"),
    (188, "Method/TailCallSucceeded"),
    (189, "Method/TailCallFailedAnsi"),
    (190, "Method/ILToNativeMap"),
    (191, "Method/TailCallFailed"),
    (192, "Method/InliningFailed"),
    (280, "TieredCompilation/Settings"),
    (281, "TieredCompilation/Pause"),
    (282, "TieredCompilation/Resume"),
    (283, "TieredCompilation/BackgroundJitStart"),
    (284, "TieredCompilation/BackgroundJitStop"),
    (290, "AssemblyLoader/Start"),
    (291, "AssemblyLoader/Stop"),
    (292, "AssemblyLoader/ResolutionAttempted"),
    (293, "AssemblyLoader/AssemblyLoadContextResolvingHandlerInvoked"),
    (294, "AssemblyLoader/AppDomainAssemblyResolveHandlerInvoked"),
    (295, "AssemblyLoader/AssemblyLoadFromResolveHandlerInvoked"),
    (296, "AssemblyLoader/KnownPathProbed"),
    (297, "JitInstrumentationData/InstrumentationData"),
    (298, "JitInstrumentationDataVerbose/InstrumentationData"),
    (300, "ExecutionCheckpoint/ExecutionCheckpoint"),
    (301, "WaitHandleWait/Start"),
    (302, "WaitHandleWait/Stop"),
    (303, "AllocationSampling/AllocationSampled"),
];

static RUNDOWN_NAMES: &[(u16, &str)] = &[
    (0, "ClrStack/Walk"),
    (141, "Method/DCStart"),
    (142, "Method/DCStop"),
    (143, "Method/DCStartVerbose"),
    (145, "Method/DCStartComplete"),
    (146, "Method/DCStopComplete"),
    (147, "Method/DCStartInit"),
    (148, "Method/DCStopInit"),
    (149, "Method/ILToNativeMapDCStart"),
    (150, "Method/ILToNativeMapDCStop"),
    (151, "Loader/DomainModuleDCStart"),
    (152, "Loader/DomainModuleDCStop"),
    (153, "Loader/ModuleDCStart"),
    (155, "Loader/AssemblyDCStart"),
    (156, "Loader/AssemblyDCStop"),
    (157, "Loader/AppDomainDCStart"),
    (158, "Loader/AppDomainDCStop"),
    (159, "Loader/ThreadDCStop"),
    (188, "CodeSymbolsRundown/Start"),
    (280, "TieredCompilationRundown/SettingsDCStart"),
    (300, "ExecutionCheckpointRundown/ExecutionCheckpointDCEnd"),
];

static PRIVATE_NAMES: &[(u16, &str)] = &[
    (1, "GC/Decision"),
    (3, "GC/Optimized"),
    (4, "GC/PerHeapHistory"),
    (5, "GC/GlobalHeapHistory"),
    (80, "Startup/EEStartupStart"),
    (81, "Startup/EEStartupStop"),
    (82, "Startup/EEConfigSetupStart"),
    (83, "Startup/EEConfigSetupStop"),
    (84, "Startup/LoadSystemBasesStart"),
    (85, "Startup/LoadSystemBasesStop"),
    (86, "Startup/ExecExeStart"),
    (87, "Startup/ExecExeStop"),
    (88, "Startup/MainStart"),
    (89, "Startup/MainStop"),
    (90, "Startup/ApplyPolicyStart"),
    (91, "Startup/ApplyPolicyStop"),
    (92, "Startup/LdLibShFolderStart"),
    (93, "Startup/LdLibShFolderStop"),
    (94, "Startup/PrestubWorkerStart"),
    (95, "Startup/PrestubWorkerStop"),
    (96, "Startup/GetInstallationStart"),
    (97, "Startup/GetInstallationStop"),
    (98, "Startup/OpenHModuleStart"),
    (99, "Startup/OpenHModuleStop"),
    (100, "Startup/ExplicitBindStart"),
    (101, "Startup/ExplicitBindStop"),
    (102, "Startup/ParseXmlStart"),
    (103, "Startup/ParseXmlStop"),
    (104, "Startup/InitDefaultDomainStart"),
    (105, "Startup/InitDefaultDomainStop"),
    (106, "Startup/InitSecurityStart"),
    (107, "Startup/InitSecurityStop"),
    (108, "Startup/AllowBindingRedirsStart"),
    (109, "Startup/AllowBindingRedirsStop"),
    (110, "Startup/EEConfigSyncStart"),
    (111, "Startup/EEConfigSyncStop"),
    (112, "Startup/BindingStart"),
    (113, "Startup/BindingStop"),
    (114, "Startup/LoaderCatchCallStart"),
    (115, "Startup/LoaderCatchCallStop"),
    (116, "Startup/FusionInitStart"),
    (117, "Startup/FusionInitStop"),
    (118, "Startup/FusionAppCtxStart"),
    (119, "Startup/FusionAppCtxStop"),
    (120, "Startup/Fusion2EEStart"),
    (121, "Startup/Fusion2EEStop"),
    (122, "Startup/SecurityCatchCallStart"),
    (123, "Startup/SecurityCatchCallStop"),
    (151, "ClrStack/Walk"),
    (158, "ClrPerfTrack/ModuleRangeLoad"),
    (159, "Binding/PolicyPhaseStart"),
    (160, "Binding/PolicyPhaseStop"),
    (161, "Binding/NgenPhaseStart"),
    (162, "Binding/NgenPhaseStop"),
    (163, "Binding/LoopupAndProbingPhaseStart"),
    (164, "Binding/LookupAndProbingPhaseStop"),
    (165, "Binding/LoaderPhaseStart"),
    (166, "Binding/LoaderPhaseStop"),
    (167, "Binding/PhaseStart"),
    (168, "Binding/PhaseStop"),
    (169, "Binding/DownloadPhaseStart"),
    (170, "Binding/DownloadPhaseStop"),
    (171, "Binding/LoaderAssemblyInitPhaseStart"),
    (172, "Binding/LoaderAssemblyInitPhaseStop"),
    (173, "Binding/LoaderMappingPhaseStart"),
    (174, "Binding/LoaderMappingPhaseStop"),
    (175, "Binding/LoaderDeliverEventPhaseStart"),
    (176, "Binding/LoaderDeliverEventsPhaseStop"),
    (177, "EvidenceGeneration/EvidenceGenerated"),
    (178, "Transparency/ModuleTransparencyComputationStart"),
    (179, "Transparency/ModuleTransparencyComputationStop"),
    (180, "Transparency/TypeTransparencyComputationStart"),
    (181, "Transparency/TypeTransparencyComputationStop"),
    (182, "Transparency/MethodTransparencyComputationStart"),
    (183, "Transparency/MethodTransparencyComputationStop"),
    (184, "Transparency/FieldTransparencyComputationStart"),
    (185, "Transparency/FieldTransparencyComputationStop"),
    (186, "Transparency/TokenTransparencyComputationStart"),
    (187, "Transparency/TokenTransparencyComputationStop"),
    (188, "NgenBinder/NgenBind"),
    (191, "FailFast"),
    (192, "GC/FinalizeObject"),
    (193, "GC/CCWRefCountChangeAnsi"),
    (196, "Binding/FusionMessage"),
    (198, "GC/PinObjectAtGCTime"),
    (200, "GC/CCWRefCountChange"),
    (201, "ClrMulticoreJit/Common"),
    (202, "ClrMulticoreJit/MethodCodeReturned"),
    (300, "ThreadPoolWorkingThreadCount/Start"),
    (301, "ThreadPool/Enqueue"),
    (302, "ThreadPool/Dequeue"),
    (303, "ThreadPool/IOEnqueue"),
    (304, "ThreadPool/IODequeue"),
    (305, "ThreadPool/IOPack"),
    (310, "LoaderHeap/AllocRequest"),
    (400, "ClrDynamicTypeUsage/IInspectableRuntimeClassName"),
    (401, "ClrDynamicTypeUsage/WinRTUnbox"),
    (402, "ClrDynamicTypeUsage/CreateRCW"),
    (403, "ClrDynamicTypeUsage/RCWVariance"),
    (404, "ClrDynamicTypeUsage/RCWIEnumerableCasting"),
    (405, "ClrDynamicTypeUsage/CreateCCW"),
    (406, "ClrDynamicTypeUsage/CCWVariance"),
    (407, "ClrDynamicTypeUsage/ObjectVariantMarshallingToNative"),
    (408, "ClrDynamicTypeUsage/GetTypeFromGUID"),
    (409, "ClrDynamicTypeUsage/GetTypeFromProgID"),
    (410, "ClrDynamicTypeUsage/ConvertToCallbackEtw"),
    (411, "ClrDynamicTypeUsage/BeginCreateManagedReference"),
    (412, "ClrDynamicTypeUsage/EndCreateManagedReference"),
    (413, "ClrDynamicTypeUsage/ObjectVariantMarshallingToManaged"),
];

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(RUNTIME, 1, "", None, "GC/Start")]
    #[case(RUNTIME, 204, "", Some(204), "GC/PerHeapHistory")]
    #[case(RUNTIME, 2, "GCEnd", Some(2), "GC/Stop")]
    #[case(PRIVATE, 2, "Settings", Some(14), "GC/Settings")]
    #[case(RUNTIME, 60_000, "GCNovelty", Some(11), "GCNovelty/11")]
    #[case(RUNTIME, 60_000, "", None, "EventID(60000)")]
    #[case("Mine", 1, "", None, "EventID(1)")]
    #[case("Mine", 1, "RequestStart", None, "Request/Start")]
    #[case("Mine", 2, "RequestStop", Some(2), "Request/Stop")]
    #[case("Mine", 2, "Request", Some(2), "Request/Stop")]
    #[case("Mine", 2, "RequestStart", Some(2), "RequestStart/Stop")]
    #[case("Mine", 3, "Restart", Some(0), "Restart")]
    #[case("Mine", 4, "TestEvent3", Some(24), "TestEvent3/24")]
    #[case("Mine", 5, "Start", None, "Start")]
    #[case("Mine", 5, "\u{e9}tart", None, "\u{e9}tart")]
    fn events_are_listed_by_names(
        #[case] provider: &str,
        #[case] event: u32,
        #[case] name: &str,
        #[case] opcode: Option<u8>,
        #[case] title: &str,
    ) {
        let kind = EventType { provider: provider.into(), event, name: name.into(), opcode, ..EventType::default() };
        assert_eq!(kind.title(), title);
    }

    #[test]
    fn names_are_found_by_their_numbers() {
        for names in [RUNTIME_NAMES, RUNDOWN_NAMES, PRIVATE_NAMES] {
            assert!(names.is_sorted_by(|one, next| one.0 < next.0));
        }
    }

    #[test]
    fn an_event_with_a_declaration_is_named_there_only() {
        for (provider, names) in [(RUNTIME, RUNTIME_NAMES), (RUNDOWN, RUNDOWN_NAMES), (PRIVATE, PRIVATE_NAMES)] {
            for (event, name) in names {
                assert_eq!(declared(provider, (*event).into()), None, "{provider} {event} {name}");
            }
        }
    }
}
