import Agent
import Glibc
import NIOPosix

extension ConfigurationOptions {
    /// Without a named file, that of the agent that runs on the data folder: the built-in default would not be what it runs with.
    ///
    /// A file that this user cannot read, or that is not a configuration at all, is left out: the agent says itself what is wrong with it.
    func ofRunningAgent() async -> ConfigurationOptions {
        guard config == nil, let place = try? place(),
            let agent = try? AgentClient.find(place, group: MultiThreadedEventLoopGroup.singleton),
            let file = try? await agent.request("GET", "/api/status")["configuration"]?["file"]?.asString, access(file, R_OK) == 0
        else { return self }
        var adopted = self
        adopted.config = file
        return adopted.examine().settings == nil ? self : adopted
    }
}
