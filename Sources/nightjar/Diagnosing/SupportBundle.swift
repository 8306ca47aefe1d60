import Agent
import AgentConfiguration
import Documents
import Encodings
import Environment
import Glibc
import NIOPosix

/// What `nightjar support-bundle` collects. Everything that goes in is searched for the configuration's secrets once more.
struct SupportBundle: Sendable {
    struct Entry: Sendable {
        var name: String
        var bytes: [UInt8]
    }

    let name: String
    private(set) var entries: [Entry] = []
    private let madeAt: Int64
    private var secrets = RedactedConfiguration()

    private init(_ now: Int64) {
        madeAt = now
        name = "nightjar-support-\(now)"
    }

    var tar: [UInt8] {
        var archive = TarArchive(time: madeAt)
        for entry in entries { archive.add("\(name)/\(entry.name)", entry.bytes) }
        return archive.finished()
    }

    static func make(_ location: ConfigurationOptions, tellsPeers: Bool) async -> SupportBundle {
        var bundle = SupportBundle(Environment.system.time.wallSeconds())
        if let path = location.config {
            do throws(ConfigurationProblems) {
                bundle.secrets = try RedactedConfiguration.read(path: path)
                bundle.add("configuration.yaml", bundle.secrets.text)
            } catch {
                // The unreadable part may contain a secret: only positions are reported.
                bundle.add("configuration.txt", error.problems.map { "\($0.file):\($0.line):\($0.column): cannot be read as YAML" }.joined(separator: "\n") + "\n")
            }
        }
        bundle.add("machine.json", machine())
        var settings = location.examine().settings
        if settings == nil { settings = try? location.place() }
        if let settings {
            bundle.secrets.secrets += settings.secretTexts
            if let token = AdminTokenFile.made(data: settings.data.value) { bundle.secrets.secrets.append(token.revealed) }
            bundle.add("files.txt", files(settings.data.value))
            if let agent = try? AgentClient.find(settings, group: MultiThreadedEventLoopGroup.singleton) { await bundle.add(agent) }
        }
        // The secrets in an unreadable configuration are unknown here, and doctor's report could quote one.
        if bundle.entries.first?.name != "configuration.txt" {
            let findings = await Diagnosis(location: location, tellsPeers: tellsPeers, readsStore: false).findings { _ in }
            bundle.add("doctor.json", JSONValue.array(findings.map(\.json)))
        }
        return bundle
    }

    private mutating func add(_ agent: AgentClient) async {
        for (name, path) in [
            ("status.json", "/api/status"), ("health.json", "/health"), ("metrics.txt", "/metrics"),
        ] {
            do { add(name, String(decoding: try await agent.everyStatus(path), as: UTF8.self)) } catch { add(name, "\(error)\n") }
        }
        do { add("log.json", Self.withoutBodies(try await agent.request("GET", "/api/log"))) } catch { add("log.json", "\(error)\n") }
        do {
            let plugins = try await agent.request("GET", "/api/plugins").asArray ?? []
            add("plugins.json", JSONValue.array(plugins.map { plugin in
                JSONOutput.object(["name": plugin["name"] ?? .null, "version": plugin["version"] ?? .null, "state": plugin["state"] ?? .null, "hooks": plugin["hooks"] ?? .null])
            }))
        } catch { add("plugins.json", "\(error)\n") }
    }

    /// Lines written with `log: { bodies: true }` contain documents, even after it was switched off.
    private static func withoutBodies(_ log: JSONValue) -> JSONValue {
        .array((log.asArray ?? []).compactMap { line -> JSONValue? in
            guard var fields = line.asObject else { return nil }
            fields["body"] = nil
            return .object(fields)
        })
    }

    private mutating func add(_ name: String, _ json: JSONValue) { add(name, json.text + "\n") }

    private mutating func add(_ name: String, _ text: String) { entries.append(Entry(name: name, bytes: Array(secrets.scrub(text).utf8))) }

    private static func machine() -> JSONValue {
        var facts = utsname()
        uname(&facts)
        func text<T>(_ field: T) -> String { withUnsafeBytes(of: field) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) } }
        let release = (try? InputText.read("/etc/os-release")) ?? ""
        let pretty = release.split(separator: "\n").first { $0.hasPrefix("PRETTY_NAME=") }.map { String($0.dropFirst(12).filter { $0 != "\"" }) }
        return JSONOutput.object([
            "nightjar": .string(AgentVersion.number), "system": .string(pretty ?? text(facts.sysname)), "kernel": .string(text(facts.release)),
            "machine": .string(text(facts.machine)), "cores": .int(Int64(System.coreCount)),
            "memory_bytes": .int(Int64(sysconf(Int32(_SC_PHYS_PAGES))) * Int64(sysconf(Int32(_SC_PAGESIZE)))),
        ])
    }

    /// Names and sizes, two levels deep: shows what fills the disk.
    private static func files(_ data: String) -> String {
        var text = ""
        func list(_ folder: String, _ shown: String, _ depth: Int) {
            guard let directory = opendir(folder) else { return }
            defer { closedir(directory) }
            var names: [String] = []
            while let entry = readdir(directory) {
                let name = withUnsafePointer(to: &entry.pointee.d_name) {
                    $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
                }
                if name != ".", name != ".." { names.append(name) }
            }
            // For blobs, the number is enough.
            if names.count > 200 {
                text += "\(shown): \(Plural.count(names.count, "file"))\n"
                return
            }
            for name in names.sorted() {
                var facts = stat()
                guard lstat("\(folder)/\(name)", &facts) == 0 else { continue }
                text += "\(String(facts.st_mode & 0o7777, radix: 8)) \(facts.st_size) \(shown)\(name)\n"
                if facts.st_mode & S_IFMT == S_IFDIR, depth < 2 { list("\(folder)/\(name)", "\(shown)\(name)/", depth + 1) }
            }
        }
        list(data, "", 0)
        return text
    }
}

/// A small system file.
private enum InputText {
    static func read(_ path: String) throws -> String {
        guard let file = fopen(path, "r") else { throw AgentError(.failed, "\(path): \(String(cString: strerror(errno)))") }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 16 << 10)
        let count = fread(&bytes, 1, bytes.count, file)
        return String(decoding: bytes[..<count], as: UTF8.self)
    }
}
