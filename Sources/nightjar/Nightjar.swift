import Agent
import ArgumentParser

/// The single executable: the agent, and the commands that talk to it or to its data.
@main
struct Nightjar: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "nightjar",
        abstract: "An edge sync agent: stores JSON documents, replicates them, and lets Lua plugins decide.",
        discussion: """
            Exit status: 0; 1 the command failed, found something wrong where it looks for that (doctor, plugin check, identity list), or what \
            was asked for is not there; 3 nothing knows the id that doc why was asked about; 64 wrong usage; 75 run could not stop in time and ended itself; 78 wrong configuration. What status and \
            lists show does not change it: held, refused and pending documents are 0, and /health says whether all is well.
            """,
        version: AgentVersion.number,
        subcommands: [
            RunCommand.self, CheckCommand.self, StatusCommand.self, DoctorCommand.self, ExplainCommand.self, SupportBundleCommand.self, AuditCommand.self, ReloadCommand.self, DocCommand.self, BlobCommand.self, ImportCommand.self, ExportCommand.self, BackupCommand.self, RestoreCommand.self, CompactCommand.self, ResyncCommand.self,
            ReplicateCommand.self, ReplicatorCommand.self, ListenerCommand.self, DisconnectCommand.self, DiscoverCommand.self, PinCommand.self, PipeCommand.self, PluginCommand.self, ConflictsCommand.self, IdentityCommand.self,
            FleetCommand.self, UserCommand.self, PasswordCommand.self, ConfigCommand.self, ManualCommand.self,
        ])

    static func main() async {
        if let refusal = UnknownCommand.refusal(Array(CommandLine.arguments.dropFirst()), of: Self.self) {
            Output.errorLine("Error: \(refusal)")
            exit(withError: ExitCode.validationFailure)
        }
        await main(nil)
    }
}
