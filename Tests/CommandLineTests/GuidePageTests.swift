import Documents
import TestSupport
import Testing

/// The pages of examples/guides that commands make.
@Suite("Pages that commands make")
struct GuidePageTests {
    @Test(
        "the page in the repository is what the command prints",
        arguments: [
            ("configuration.md", ["config", "reference"]), ("troubleshooting.md", ["explain", "--markdown"]),
        ])
    func made(_ file: String, _ command: [String]) async throws {
        let outcome = try await Subprocess.run(try NightjarExecutable.path(), command)
        let page = String(decoding: try TemporaryFolder.bytes(of: "\(NightjarExecutable.package())/examples/guides/\(file)"), as: UTF8.self)
        #expect(outcome.status == 0 && outcome.errors.isEmpty)
        #expect(outcome.output == page, "nightjar \(command.joined(separator: " ")) > examples/guides/\(file)")
    }

    @Test("sizes have their bounds in the reference, as numbers have")
    func bounds() async throws {
        let page = try await NightjarExecutable.run("config", "reference").output
        for row in ["| `max_bytes` | size, 64KiB to 1GiB |", "| `send` | size, 4KiB to 1024GiB |", "| `compression` | `off`; or number, 0 to 9 |"] {
            #expect(page.contains(row), "\(row)")
        }
        #expect(!page.contains("size, such as"))
    }

    @Test("the reference has every key that the schema has, with its default")
    func keys() async throws {
        let schema = try JSONValue(parsing: Array(try await NightjarExecutable.run("config", "schema").output.utf8))
        let page = try await NightjarExecutable.run("config", "reference").output
        var count = 0
        for section in schema["definitions"]?.asObject?.members ?? [] {
            for member in section.value["properties"]?.asObject?.members ?? [] {
                let (key, value) = (member.key, member.value)
                let row = page.split(separator: "\n").contains { $0.hasPrefix("| `\(key)` |") && $0.hasSuffix("| \(value["description"]?.asString ?? "") |") }
                #expect(row, "\(key)")
                count += 1
            }
        }
        #expect(count > 100)
    }
}
