import AgentConfiguration
import PluginHost
import TestSupport
import Testing

@testable import Agent

@Suite("Plugins that came with the package") struct PackagedPluginTests {
    @Test("are offered where the plugins folder lacks one that the configuration names")
    func offered() throws {
        let folder = try TemporaryFolder()
        try folder.write("share/password-file.lua", "return {}")
        func words(_ name: String) -> String {
            PluginReference(plugin: name).words(.unknown(plugin: name, folder: "/etc/nightjar/plugins", nearest: nil), packaged: folder.path("share"))
        }
        #expect(words("password-file").hasSuffix("; it came with the package: cp \(folder.path("share"))/password-file.lua /etc/nightjar/plugins/"))
        #expect(words("gate").hasSuffix("expected gate.lua or gate/init.lua"))
    }
}
