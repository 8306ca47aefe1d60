import ArgumentParser

/// Measures what Nightjar promises. Every figure is a ratio to a baseline from the same run; the two are measured alternately.
@main
struct NightjarBench: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "nightjar-bench",
        abstract: "Measures the store, the replication and the plugins against baselines taken in the same run.",
        discussion: "The figures depend on the machine and on what else it does: build in release mode, and look at min and max.",
        subcommands: [
            InsertCommand.self, WrittenCommand.self, PushCommand.self, PullCommand.self, PushFilterCommand.self, FilterCommand.self, FindCommand.self,
            ResolverCommand.self,
            ReloadCommand.self, ReloadStormCommand.self, PushTLSCommand.self, HandshakesCommand.self, TLSMemoryCommand.self,
            MillionCommand.self, BlobCommand.self, HostileCommand.self, CrowdCommand.self, MemoryCommand.self, LatencyCommand.self,
            DeltaCommand.self, SecondStartCommand.self, FleetCommand.self, VersionsCommand.self, CouchCommand.self, AllCommand.self, HubChild.self, PushChild.self,
        ])
}
