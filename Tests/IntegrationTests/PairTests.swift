import TestSupport
import Testing

/// The two gateways of examples/deploy/configurations, which hold the same.
@Suite("A pair of gateways")
struct PairTests {
    /// One of them, in a folder of the test's.
    private static func gateway(_ name: String, port: Int, other: Int, in folder: TemporaryFolder) async throws -> AgentProcess {
        let path = "\(NightjarExecutable.package())/examples/deploy/configurations/pair-\(name).yaml"
        let text = String(decoding: try TemporaryFolder.bytes(of: path), as: UTF8.self)
            .replacing("/var/lib/nightjar", with: folder.path("data")).replacing("/etc/nightjar", with: folder.path)
            .replacing("gateway-\(name == "a" ? "b" : "a").local:4984", with: "127.0.0.1:\(other)").replacing("port: 4984", with: "port: \(port)")
        return try await AgentProcess.start(text + "admin: { port: 0, open: true }\n", in: folder)
    }

    private static func folder(_ hash: String) throws -> TemporaryFolder {
        let folder = try TemporaryFolder()
        folder.makeFolder("plugins")
        try folder.copy("\(NightjarExecutable.package())/plugins/password-file.lua", to: "plugins/password-file.lua")
        try folder.write("users.txt", "gateway-a:\(hash)\ngateway-b:\(hash)\n")
        try folder.write("pair.secret", "secret\n")
        return folder
    }

    /// Saves documents one after the other until the agent is gone, and gives the revisions that it acknowledged.
    private static func write(_ prefix: String, to agent: AgentProcess) -> Task<[String: String], Never> {
        Task {
            var acknowledged: [String: String] = [:]
            for n in 0... {
                guard !Task.isCancelled, let rev = try? await agent.save("\(prefix)-\(n)", "{\"n\":\(n)}", in: "plant") else { break }
                acknowledged["\(prefix)-\(n)"] = rev
            }
            return acknowledged
        }
    }

    @Test("one is killed in the middle of its work: the other continues with all that was there, and when it is back both hold everything that either acknowledged")
    func kill() async throws {
        let hash = try await NightjarExecutable.run("password", input: .text("secret\n")).output.split(separator: "\n").first.map(String.init) ?? ""
        let (folderA, folderB) = (try Self.folder(hash), try Self.folder(hash))
        let (portA, portB) = (try freePort(), try freePort())
        let a = try await Self.gateway("a", port: portA, other: portB, in: folderA)
        let b = try await Self.gateway("b", port: portB, other: portA, in: folderB)
        try await a.save("before", "{}", in: "plant")
        try await eventually("the other has it") { try await b.has("before", in: "plant") }

        let (writesA, writesB) = (Self.write("a", to: a), Self.write("b", to: b))
        try await eventually("documents of the first are at the second") { try await b.has("a-20", in: "plant") }
        try await a.kill9()
        let ofA = await writesA.value
        #expect(ofA.count >= 20)
        // Those who wrote to the first go on with the second, and find there what it had.
        let rev = try #require(try await b.get("plant", "a-10").json["_rev"]?.asString)
        #expect(rev == ofA["a-10"])
        let more = Self.write("c", to: b)
        let soFar = try await b.documents("plant")
        try await eventually("the second goes on alone") { try await b.documents("plant") > soFar + 20 }

        let again = try await Self.gateway("a", port: portA, other: portB, in: folderA)
        try await eventually("what came meanwhile is at the first") { try await again.has("c-5", in: "plant") }
        for task in [writesB, more] { task.cancel() }
        let all = ofA.merging(await writesB.value) { $1 }.merging(await more.value) { $1 }
        try await eventually("both hold the same") {
            let (one, other) = (try await again.revisions("plant"), try await b.revisions("plant"))
            return one == other && one.count >= all.count + 1
        }
        let held = try await again.revisions("plant")
        for (id, rev) in all { #expect(held[id] == rev, "\(id) was acknowledged and is lost") }
        #expect(try await again.stop().status == 0)
        #expect(try await b.stop().status == 0)
    }
}
