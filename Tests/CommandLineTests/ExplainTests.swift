import Documents
import Glibc
import TestSupport
import Testing

/// `nightjar explain`: each code that the source can report has an entry.
@Suite("Explaining codes")
struct ExplainTests {
    @Test("a code is found as the agent writes it, as people write it, and by the number that applications show", arguments: [
        ("documents_held", "documents_held"), ("documents held", "documents_held"), ("http/401", "http/401"), ("HTTP 401", "http/401"), ("http-418", "http/4xx"),
        ("tls/8", "tls/8"), ("5002", "network/2"), ("5008", "tls/8"), ("10404", "http/404"), ("11006", "websocket/1006"), ("exit 78", "exit/78"), ("not given", "not_given"), ("507", "http/507"),
    ])
    func found(_ text: String, _ code: String) async throws {
        let outcome = try await NightjarExecutable.run("explain", text)
        #expect(outcome.status == 0 && outcome.lines.contains(code), "\(outcome)")
        #expect(outcome.output.contains("  cause: ") && outcome.output.contains("  mend:  "), "\(outcome)")
    }

    @Test("a peer without room may have a full disk or a quota", arguments: ["http/507", "insufficient_storage", "store/507"])
    func outOfSpace(_ code: String) async throws {
        let outcome = try await NightjarExecutable.run("explain", code)
        #expect(outcome.status == 0 && outcome.output.contains("quota"), "\(outcome)")
    }

    @Test func aListenerThatIsNotFoundMayLackAvahi() async throws {
        let outcome = try await NightjarExecutable.run("explain", "network/2")
        #expect(outcome.status == 0 && outcome.output.contains("Avahi") && outcome.output.contains("nightjar discover"), "\(outcome)")
    }

    @Test("a refused plugin may be a shadow, or lack its signature", arguments: ["plugin_refused", "plugin_unavailable"])
    func refusedPlugin(_ code: String) async throws {
        let outcome = try await NightjarExecutable.run("explain", code)
        #expect(outcome.status == 0 && outcome.output.contains("nightjar plugin sign NAME --key FILE --plugins FOLDER"), "\(outcome)")
        if code == "plugin_refused" { #expect(outcome.output.contains("nothing is compared with the shadow"), "\(outcome)") }
    }

    private static let lists: [(words: String, codes: [String], status: Int32)] = [
        ("documents_held http/401", ["documents_held", "http/401"], 0), ("http 401 TLS 8 exit/78", ["http/401", "tls/8", "exit/78"], 0),
        ("documents held exit 1", ["documents_held", "exit/1"], 0), ("tls/8 tls/8", ["tls/8"], 0), ("tls/8 qqq", ["tls/8"], 1), ("certificate away", [], 1),
    ]

    @Test("several codes are explained one after the other, even if some are written as two words; an unknown one makes the status 1", arguments: lists)
    func several(_ text: String, _ codes: [String], _ status: Int32) async throws {
        let words = text.split(separator: " ").map(String.init)
        let outcome = try await Subprocess.run(try NightjarExecutable.path(), ["explain"] + words)
        #expect(outcome.status == status && outcome.lines.filter { !$0.hasPrefix("  ") } == codes, "\(outcome)")
        #expect(outcome.errors.contains("there is no code") == (status == 1), "\(outcome)")
        let json = try await Subprocess.run(try NightjarExecutable.path(), ["explain"] + words + ["--json"])
        if codes.count > 1 { #expect(try json.json.asArray?.map { $0["code"]?.asString } == codes, "\(json)") }
    }

    @Test("an unknown code is 1 with similar ones; without a code all are listed")
    func others() async throws {
        let wrong = try await NightjarExecutable.run("explain", "certificate_gone")
        #expect(wrong.status == 1 && wrong.errors.contains("certificate_expired") && wrong.output.isEmpty, "\(wrong)")
        #expect(try await NightjarExecutable.run("explain", "qqq").status == 1)
        let list = try await NightjarExecutable.run("explain")
        #expect(list.status == 0 && list.output.contains("What needs attention:\n") && list.output.contains("  exit/78: "), "\(list)")
        let json = try await NightjarExecutable.run("explain", "tls/8", "--json").json
        #expect(json["code"] == "tls/8" && json["mend"]?.asString?.isEmpty == false)
    }

    @Test("every code in the source has an entry, and every entry has a cause and a remedy")
    func complete() async throws {
        let entries = try await NightjarExecutable.run("explain", "--json").json.asArray ?? []
        let codes = entries.compactMap { $0["code"]?.asString }
        #expect(Set(codes).count == codes.count, "a code is there twice")
        for entry in entries { #expect(["cause", "mend"].allSatisfy { (entry[$0]?.asString?.utf8.count ?? 0) > 5 }, "\(entry.text)") }
        let wanted = try SourceCodes.all()
        // If this is small, what looks for them is broken.
        #expect(wanted.count > 90, "\(wanted.count)")
        let missing = wanted.subtracting(codes)
        #expect(missing.isEmpty, "without an entry: \(missing.sorted())")
        let kinds = try SourceCodes.cases(of: "Sources/Agent/Attention/AttentionKind.swift")
        #expect(kinds.contains("writes_failing") && kinds.isSubset(of: codes))
    }
}

/// Codes as they stand in the source.
private enum SourceCodes {
    static func all() throws -> Set<String> {
        var codes = try cases(of: "Sources/Agent/Attention/AttentionKind.swift").union(cases(of: "Sources/LuaRuntime/LuaFailure.swift"))
        let words = ["AgentConfiguration", "nightjar-bench", "Explaining"]
        for file in try files("Sources") where !words.contains(where: { file.contains("/\($0)/") }) {
            let text = try text(file)
            codes.formUnion(numbers(text))
            for match in text.matches(of: /HTTPError\([^"\n]*"[^\n]*error: "([a-z_]+)"/) { codes.insert(String(match.1)) }
            for match in text.matches(of: /WhereaboutsStatement\(\s*(?:isTheirs \? )?"([a-z_]+)"/) { codes.insert(String(match.1)) }
            for match in text.matches(of: /NamedLimit\("([a-z_]+)"/) { codes.insert(String(match.1)) }
            // `… (max_collections)`, `…; max_channels is \\(…)`, `more than selector_depth = \\(…)`
            for match in text.matches(of: /"[^"\n]*\((max_[a-z_]+|[a-z_]+_(?:bytes|time|attempts|documents|queue|states))\)[^"\n]*"/) { codes.insert(String(match.1)) }
            for match in text.matches(of: /"[^"\n]*\b([a-z]+(?:_[a-z]+)+) is \\\(/) { codes.insert(String(match.1)) }
            for match in text.matches(of: /more than ([a-z]+(?:_[a-z]+)+) [=(]/) { codes.insert(String(match.1)) }
            for match in text.matches(of: /PolicyFailure\([^\n]*kind: "([a-z_]+)"/) { codes.insert(String(match.1)) }
        }
        // The words for statuses that have no own one.
        let head = try text("Sources/HTTPServer/Messages/ResponseHead.swift")
        for match in head.matches(of: /(?:case [0-9.]+|default): "([a-z_]+)"/) { codes.insert(String(match.1)) }
        let network = try text("Sources/Interfaces/ReplicationError.swift")
        for line in network.split(separator: "\n") where line.contains("case dnsFailure") || line.contains("case reset") || line.contains("case network") || line.contains("case address") {
            for match in line.matches(of: /= ([0-9]+)/) { codes.insert("network/\(match.1)") }
        }
        let tls = try text("Sources/Transport/Security/TLSErrors.swift")
        for match in tls.matches(of: /case \.[a-zA-Z, .]+: ([0-9]+)/) { codes.insert("tls/\(match.1)") }
        for match in try text("Sources/Replication/Driver/StoreErrors.swift").matches(of: /code = ([0-9]+)/) { codes.insert("store/\(match.1)") }
        for match in try text("Sources/Replication/Driver/CloseCode.swift").matches(of: /UInt16 = ([0-9]+)/) { codes.insert("websocket/\(match.1)") }
        return codes.union(["exit/0", "exit/1", "exit/64", "exit/75", "exit/78"])
    }

    /// `domain: .http, code: 404` and the like.
    private static func numbers(_ text: String) -> Set<String> {
        var codes: Set<String> = []
        for match in text.matches(of: /domain: \.([a-z]+), code: ([0-9]+)/) { codes.insert("\(match.1)/\(match.2)") }
        for match in text.matches(of: /MessageError\(domain: "([A-Za-z]+)", code: ([0-9]+)/) { codes.insert("\(match.1.lowercased())/\(match.2)") }
        for match in text.matches(of: /(?:closeCode|code): ([1-4]0[0-9]{2})\b/) { codes.insert("websocket/\(match.1)") }
        for match in text.matches(of: /HTTPError\((4[0-9]{2}|5[0-9]{2}),/) { codes.insert("http/\(match.1)") }
        return codes
    }

    /// `case pluginRefused = "plugin_refused"`
    static func cases(of file: String) throws -> Set<String> {
        Set(try text(file).matches(of: /\s{4}case [a-zA-Z]+ = "([a-z_]+)"/).map { String($0.1) })
    }

    private static func text(_ file: String) throws -> String {
        String(decoding: try TemporaryFolder.bytes(of: "\(NightjarExecutable.package())/\(file)"), as: UTF8.self)
    }

    private static func files(_ folder: String) throws -> [String] {
        let path = "\(NightjarExecutable.package())/\(folder)"
        guard let directory = opendir(path) else { throw SupportError("no folder \(path)") }
        defer { closedir(directory) }
        var found: [String] = []
        while let entry = readdir(directory) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) { $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) } }
            if name.hasSuffix(".swift") { found.append("\(folder)/\(name)") } else if !name.contains(".") { found += try files("\(folder)/\(name)") }
        }
        return found
    }
}
