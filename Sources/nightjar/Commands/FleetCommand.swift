import Agent
import ArgumentParser
import Documents
import Glibc
import TLS

struct FleetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fleet", abstract: "Signs plugins and publishes them to a fleet of agents.",
        discussion: """
            Signed plugins are documents of the collection nightjar.fleet, which replicates to the gateways. Each takes what a key of its \
            configuration (fleet.keys) has signed for it, if its tests pass, and writes back what it runs.
            """,
        subcommands: [Keygen.self, Sign.self, Publish.self, Verify.self, Status.self])

    struct Keygen: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "keygen", abstract: "Makes a signing key, and prints its public key for fleet.keys of the gateways.",
            discussion: "Whoever has the file can change what all gateways run. It belongs to one machine and a safe, not to the hub.")

        @Argument(help: "The file to be made, for its owner only.") var file: String
        @Flag(help: "Replace a file that is there.") var replace = false
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

    /// Where the fleet's documents are, and whose count.
    struct FleetLocation: ParsableArguments, Sendable {
        @OptionGroup var location: LocationOptions
        @Option(help: "The database with the collection nightjar.fleet.") var db = "main"
        @Option(
            name: .customLong("trust"),
            help: ArgumentHelp("A public key whose signatures count, beside those of fleet.keys; several are possible.", valueName: "key"))
        var keys: [String] = []

        func withDocuments<T>(_ work: (DocumentPlace) async throws -> T) async throws -> T {
            try await location.withDocuments(of: "\(db).\(FleetDocument.collection)", work)
        }

        /// Those of the options and of the configuration.
        func trusted() throws -> [VerifyingKey] {
            try FleetCommand.keys(keys) + (try location.fleet()?.keys ?? []).compactMap { VerifyingKey($0.value) }
        }
    }

    /// What is signed, for whom and with what.
    struct Signing: ParsableArguments {
        @Option(help: ArgumentHelp("File of the signing key.", valueName: "file")) var key: String
        @Option(name: .customLong("for-id"), help: ArgumentHelp("Only the gateway of this id; several are possible.", valueName: "id")) var ids: [String] = []
        @Option(name: .customLong("for-label"), help: ArgumentHelp("Only gateways with this label; several are possible.", valueName: "label"))
        var labels: [String] = []
        @Option(
            name: .customLong("plugin-version"),
            help: ArgumentHelp("Its version, above all that were published; to go back, publish the old files under a new one.", valueName: "number"))
        var number: Int64?
        @Argument(help: "Plugins as NAME.lua; tests in NAME.test.lua beside one go with it.") var files: [String]

        func signer() throws -> PrivateKey { try PrivateKey.readPEM(try SecretFile.read(key), path: key) }

        /// Names of the plugins, in the order of the files.
        func names() throws -> [String] {
            try files.map { file in
                let base = String(file.split(separator: "/").last ?? "")
                guard base.hasSuffix(".lua"), !base.hasSuffix(".test.lua") else { throw AgentError(.invalid, "\(file): name a plugin, NAME.lua") }
                return String(base.dropLast(4))
            }
        }

        func documents(_ version: (String) -> Int64) throws -> [(document: FleetDocument, bytes: [UInt8])] {
            let signer = try signer()
            return try zip(files, try names()).map { file, name in
                let tests = String(file.dropLast(4)) + ".test.lua"
                let document = FleetDocument(
                    name: name, version: number ?? version(name), scope: .init(ids: ids, labels: labels), main: try FleetCommand.content(file),
                    tests: access(tests, F_OK) == 0 ? try FleetCommand.content(tests) : nil)
                return (document, try document.signed(with: signer))
            }
        }
    }

    struct Sign: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "sign", abstract: "Signs plugins and prints the documents, one a line, for nightjar import DB.nightjar.fleet elsewhere.")

        @OptionGroup var signing: Signing
        @Flag(help: "Print JSON; it does in any case.") var json = false

        func validate() throws { if signing.number == nil { throw ValidationError("--plugin-version is needed: nothing here knows which were published") } }

        func run() async throws {
            try await Failure.reporting {
                for (document, bytes) in try signing.documents({ _ in 0 }) {
                    guard case .object(var object) = try JSONValue(parsing: bytes) else { continue }
                    object["_id"] = .string(document.id)
                    Output.line(JSONValue.object(object).text)
                }
            }
        }
    }

    struct Publish: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "publish", abstract: "Signs plugins and puts them into the hub's collection.",
            discussion: "On the hub, or on any agent that replicates the collection to it.")

        @OptionGroup var fleet: FleetLocation
        @OptionGroup var signing: Signing
        @Flag(help: "Print JSON.") var json = false

        func run() async throws {
            try await Failure.reporting {
                let signer = try signing.signer()
                let trusted = try fleet.trusted() + [signer.verifyingKey].compactMap(\.self)
                let saved = try await fleet.withDocuments { place -> [String] in
                    let published = try await PublishedVersions(place, trusting: trusted)
                    let documents = try signing.documents { published.next($0) }
                    for (document, _) in documents {
                        guard let highest = published.highest(document.name), document.version <= highest else { continue }
                        throw AgentError(.invalid, "\(document.name): version \(highest) was published; gateways take none below it")
                    }
                    for (document, bytes) in documents { _ = try await place.put(document.id, bytes) }
                    return documents.map(\.document.id)
                }
                if json { return Output.json(.array(saved.map { .string($0) })) }
                for id in saved { Output.line("\(id) is published") }
            }
        }
    }

    struct Verify: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "verify", abstract: "Reads signed documents, one a line as sign and export print them, and says what a gateway with these keys believes.")

        @Option(name: .customLong("trust"), help: ArgumentHelp("A public key; several are possible.", valueName: "key")) var keys: [String]
        @Argument(help: "A file; standard input if absent.") var file: String?
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
                    do throws(FleetRefusal) { _ = try FleetDocument(verifying: JSONValue.object(object).serialize(), id: id, trusting: trusted) } catch {
                        problem = error.reason
                        isWrong = true
                    }
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
