import Agent
import AgentConfiguration
import ArgumentParser
import Documents
import Glibc
import PluginHost
import TLS

struct FleetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fleet", abstract: "Signs plugins and fragments of the configuration and publishes them to a fleet of agents.",
        discussion: """
            The signed items are documents of the collection nightjar.fleet, which replicates to the gateways. Each accepts what a key of its \
            configuration (fleet.keys) has signed for it, if it passes the checks of that gateway, and writes back what it runs.
            """,
        subcommands: [Keygen.self, Sign.self, Publish.self, Withdraw.self, Verify.self, Status.self])

    struct Keygen: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "keygen", abstract: "Makes a signing key, and prints its public key for fleet.keys of the gateways.",
            discussion: "Anyone who has the file can change what all gateways run. Keep it on one machine and in a safe, not on the hub.")

        @Argument(help: "The file to create, readable by its owner only.", completion: .file()) var file: String
        @Flag(help: "Replace an existing file.") var replace = false
        @Flag(help: "Print JSON.") var json = false

        func run() async throws {
            try await Failure.reporting {
                let key = try PrivateKey.makeEd25519()
                try SecretFile.write(file, try key.writePEM(), replaces: replace)
                guard let verifying = key.verifyingKey else { throw AgentError(.failed, "OpenSSL does not give out the public key") }
                if json { return Output.json(JSONOutput.object(["file": .string(file), "key": .string("\(verifying)")])) }
                Output.line("\(verifying)")
            }
        }
    }

    /// Where the fleet's documents are, and which keys are trusted.
    struct FleetLocation: ParsableArguments, Sendable {
        @OptionGroup var location: LocationOptions
        @Option(help: "The database with the collection nightjar.fleet (default: fleet.database of the configuration, or the only database with that collection, or main).")
        var db: String?
        @Option(
            name: .customLong("trust"),
            help: ArgumentHelp("A public key whose signatures count, in addition to those in fleet.keys; can be repeated.", valueName: "key"))
        var keys: [String] = []

        func withDocuments<T>(_ work: (DocumentPlace) async throws -> T) async throws -> T {
            let name = try await database()
            var isThere = false
            do {
                return try await location.withDocuments(of: "\(name).\(FleetDocument.collection)") { place in
                    isThere = true
                    return try await work(place)
                }
            } catch let error as AgentError where db == nil && !isThere && error.kind == .notFound {
                throw AgentError(
                    .notFound,
                    "\(error). The fleet's documents are in the collection \(FleetDocument.collection) of a database: name that with --db, or the hub's configuration with --config")
            }
        }

        private func database() async throws -> String {
            if let db { return db }
            if let configured = try location.fleet()?.database.value, !configured.isEmpty { return configured }
            let found = try await location.databases(with: FleetDocument.collection)
            guard found.count > 1, !found.contains("main") else { return found.count == 1 ? found[0] : "main" }
            throw AgentError(
                .invalid, "several databases have the collection \(FleetDocument.collection): name one with --db: \(found.sorted().joined(separator: ", "))")
        }

        /// The keys from the options and from the configuration.
        func trusted() throws -> [VerifyingKey] {
            try FleetCommand.keys(keys) + (try location.fleet()?.keys ?? []).compactMap { VerifyingKey($0.value) }
        }
    }

    /// The scope of a signed document, and the key that signs it.
    struct Signing: ParsableArguments {
        @Option(help: ArgumentHelp("File of the signing key.", valueName: "file"), completion: .file()) var key: String
        @Option(name: .customLong("for-id"), help: ArgumentHelp("Only the gateway of this id; can be repeated.", valueName: "id")) var ids: [String] = []
        @Option(name: .customLong("for-label"), help: ArgumentHelp("Only gateways with this label; can be repeated.", valueName: "label"))
        var labels: [String] = []
        @Option(
            name: [.customLong("as-version"), .customLong("plugin-version")],
            help: ArgumentHelp("Its version, higher than any published one; to go back, publish the old files under a new version.", valueName: "number"))
        var number: Int64?

        func signer() throws -> PrivateKey { try PrivateKey.readPEM(try SecretFile.read(key), path: key) }

        func sign(_ contents: [(item: FleetItem, content: FleetDocument.Content)], _ version: (FleetItem) -> Int64) throws -> [(document: FleetDocument, bytes: [UInt8])] {
            let signer = try signer()
            return try contents.map { item, content in
                let document = FleetDocument(item, version: number ?? version(item), scope: .init(ids: ids, labels: labels), content)
                return (document, try document.signed(with: signer))
            }
        }
    }

    /// The files to be signed.
    struct Files: ParsableArguments {
        @Argument(help: "Plugins as NAME.lua, with tests in NAME.test.lua beside one; fragments of a configuration as NAME.yaml.", completion: .file()) var files: [String]

        func contents() throws -> [(item: FleetItem, content: FleetDocument.Content)] {
            try files.map { file in
                let base = String(file.split(separator: "/").last ?? "")
                if base.hasSuffix(".lua"), !base.hasSuffix(".test.lua") {
                    let tests = String(file.dropLast(4)) + ".test.lua"
                    let content = FleetDocument.Content.plugin(
                        main: try FleetCommand.content(file), tests: access(tests, F_OK) == 0 ? try FleetCommand.content(tests) : nil)
                    return (FleetItem(.plugin, String(base.dropLast(4))), content)
                }
                if base.hasSuffix(".yaml") {
                    let name = String(base.dropLast(5))
                    let text = try FleetCommand.content(file)
                    // Gateways decide in the end, but none accepts text that is not a configuration.
                    if let problems = ConfigurationFragment(name: name, version: 1, text: text).problem { throw problems }
                    return (FleetItem(.config, name), .config(text))
                }
                throw AgentError(.invalid, "\(file): name a plugin, NAME.lua, or a fragment of a configuration, NAME.yaml")
            }
        }
    }

    struct Sign: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "sign", abstract: "Signs plugins and fragments and prints the documents, one a line, for nightjar import DB.nightjar.fleet elsewhere.")

        @OptionGroup var signing: Signing
        @OptionGroup var files: Files
        @Flag(help: "Print JSON; this is the default anyway.") var json = false

        func validate() throws { if signing.number == nil { throw ValidationError("--as-version is needed: nothing here knows which were published") } }

        func run() async throws {
            try await Failure.reporting {
                for (document, bytes) in try signing.sign(try files.contents(), { _ in 0 }) {
                    guard case .object(var object) = try JSONValue(parsing: bytes) else { continue }
                    object["_id"] = .string(document.id)
                    Output.line(JSONValue.object(object).text)
                }
            }
        }
    }

    struct Publish: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "publish", abstract: "Signs plugins and fragments of a configuration and puts them into the hub's collection.",
            discussion: """
                On the hub, or on any agent that replicates the collection to it. A gateway accepts a plugin if fleet.accept of its configuration \
                names plugins, and a fragment if fleet.accept_config names all that the fragment sets. What every gateway would refuse is not \
                published: a plugin that does not load by itself or whose tests fail, a fragment with a key or a value that does not exist. What depends on a \
                gateway's own configuration it sees itself: nightjar fleet status shows who refuses what.
                """)

        @OptionGroup var fleet: FleetLocation
        @OptionGroup var signing: Signing
        @OptionGroup var files: Files
        @Flag(name: .customLong("no-tests"), help: "Publish without the tests beside plugins; gateways run them all the same, and refuse what fails.")
        var leavesOutTests = false
        @Flag(name: .customLong("no-checks"), help: "Publish what this version would refuse, for gateways of a later one; without the tests, too.")
        var leavesOutChecks = false
        @Flag(help: "Print JSON.") var json = false

        func run() async throws {
            try await Failure.reporting {
                let contents = try files.contents()
                if !leavesOutChecks { try await FleetChecks.run(contents) }
                if !leavesOutChecks, !leavesOutTests {
                    try await FleetTests.run(files.files)
                    // Separately, as a gateway runs them: without the other contents of that folder.
                    try await FleetChecks.run(contents, proof: ProofByTests())
                }
                try await FleetCommand.publish(fleet, signing, json, word: "published") { _ in contents }
            }
        }
    }

    struct Withdraw: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "withdraw", abstract: "Withdraws plugins or fragments of a configuration: gateways go back to their own.",
            discussion: """
                A gateway goes back to the file of that name in its plugins folder, or to none. Where a plugin is in use and there is no file, the \
                gateway refuses the withdrawal and keeps the plugin. What was published before does not come back.
                """)

        @OptionGroup var fleet: FleetLocation
        @OptionGroup var signing: Signing
        @Flag(name: .customLong("fragment"), help: "The names are those of fragments of a configuration, not of plugins.") var isFragment = false
        @Argument(help: "Their names.") var names: [String]
        @Flag(help: "Print JSON.") var json = false

        func run() async throws {
            try await Failure.reporting {
                let items = names.map { FleetItem(isFragment ? .config : .plugin, $0) }
                try await FleetCommand.publish(fleet, signing, json, word: "published: \(isFragment ? "a fragment" : "a plugin") is withdrawn") { published in
                    for item in items where published.highest(item) == nil {
                        let others = Set(published.entries.map(\.item).filter { $0.kind == item.kind }.map(\.name)).sorted()
                        let isOfOtherKind = published.highest(FleetItem(isFragment ? .plugin : .config, item.name)) != nil
                        let hint = isOfOtherKind ? isFragment ? "; a plugin has that name: leave out --fragment" : "; a fragment has that name: add --fragment" : ""
                        throw AgentError(
                            .notFound,
                            "\(item) was not published by a key that counts; \(others.isEmpty ? "there is none" : "there are: \(others.joined(separator: ", "))")\(hint)")
                    }
                    return items.map { ($0, .withdrawn) }
                }
            }
        }
    }

    private static func publish(
        _ fleet: FleetLocation, _ signing: Signing, _ json: Bool, word: String,
        _ contents: (PublishedVersions) throws -> [(item: FleetItem, content: FleetDocument.Content)]
    ) async throws {
        let known = try fleet.trusted()
        let trusted = known + [try signing.signer().verifyingKey].compactMap(\.self)
        if let own = trusted.last, !known.isEmpty, !known.contains(own) {
            Output.errorLine("nightjar: \(own) signs, and is not among fleet.keys of the configuration: gateways whose fleet.keys lack it refuse what it signs")
        }
        let saved = try await fleet.withDocuments { place -> [String] in
            let published = try await PublishedVersions(place, trusting: trusted)
            let documents = try signing.sign(try contents(published)) { published.next($0) }
            for (document, _) in documents {
                if let highest = published.highest(document.item), document.version <= highest {
                    throw AgentError(.invalid, "\(document.item.name): version \(highest) was published; gateways accept none below it")
                }
                if signing.number == nil, let taken = published.passedOver(document.item, below: document.version) {
                    Output.errorLine("nightjar: \(document.item): \(taken), so this is version \(document.version)")
                }
                for other in published.others where other.item == document.item && other.version >= document.version {
                    Output.errorLine(
                        "nightjar: \(document.item): there is version \(other.version) by \(other.key.map(String.init(describing:)) ?? "?"), which does not count here; "
                            + "where gateways trust that key they accept none below: then --trust it")
                }
            }
            for (document, bytes) in documents { _ = try await place.put(document.id, bytes) }
            return documents.map(\.document.id)
        }
        if json { return Output.json(.array(saved.map { .string($0) })) }
        for id in saved { Output.line("\(id) is \(word)") }
    }

    struct Verify: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "verify", abstract: "Reads signed documents, one a line as sign and export print them, and says which of them a gateway with these keys accepts.")

        @Option(name: .customLong("trust"), help: ArgumentHelp("A public key; can be repeated.", valueName: "key")) var keys: [String]
        @Argument(help: "A file; standard input if absent.", completion: .file()) var file: String?
        @Flag(help: "Print JSON.") var json = false

        func run() async throws {
            try await Failure.reporting {
                let trusted = try FleetCommand.keys(keys)
                var rows: [JSONValue] = []
                var isWrong = false
                for line in try FleetCommand.content(file, limit: 64 << 20).split(separator: UInt8(ascii: "\n")) {
                    guard case .object(var object) = try JSONValue(parsing: Array(line)) else { continue }
                    let id = object["_id"]?.asString ?? ""
                    if id.hasPrefix("status:") { continue }
                    for key in ["_id", "_rev"] { object[key] = nil }
                    var problem: String?
                    do throws(FleetRefusal) {
                        let document = try FleetDocument(verifying: JSONValue.object(object).serialize(), id: id, trusting: trusted)
                        problem = document.fragment?.problem?.description
                    } catch { problem = error.reason }
                    if problem != nil { isWrong = true }
                    rows.append(JSONOutput.object(["id": .string(id), "problem": JSONOutput.text(problem)]))
                    if !json { Output.line("\(TextTable.printable(id)): \(TextTable.printable(problem ?? "signed, and believed"))") }
                }
                if json { Output.json(.array(rows)) }
                if isWrong { throw ExitCode(Failure.failed) }
            }
        }
    }

    // MARK: -

    static func keys(_ texts: [String]) throws -> [VerifyingKey] {
        try texts.map { text in
            guard let key = VerifyingKey(text) else { throw AgentError(.invalid, "--trust \(text): expected ed25519/ and 44 characters of base64") }
            return key
        }
    }

    static func content(_ path: String?, limit: Int = FleetDocument.Limits.documentBytes) throws -> [UInt8] {
        let file = try InputFile(path)
        var bytes: [UInt8] = []
        while let piece = try file.next() {
            bytes += Array(piece.readableBytesView)
            guard bytes.count <= limit else { throw AgentError(.tooLarge, "\(path ?? "standard input"): more than \(limit) bytes") }
        }
        return bytes
    }
}
