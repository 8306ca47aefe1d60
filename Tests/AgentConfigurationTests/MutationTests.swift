import AgentConfiguration
import TestRandomness
import Testing

@Suite("Damaged configurations")
struct MutationTests {
    /// Any bytes lead to settings or to problems that say where, never to a crash.
    @Test(arguments: 0..<8)
    func randomMutationsOfTheSample(_ lane: Int) {
        let seed = 0x6E69_6768_746A_6172 &+ UInt64(lane)
        var random = SeededGenerator(seed: seed)
        let original = Array(sample.utf8)
        let pieces = ["\n", "  ", "\t", "- ", ": ", "{", "}", "[", "]", "\"", "'", "#", "&a ", "*a", "!!x ", "${", "${HUB_PASSWORD}", "$${", "|\n", ">-\n", "? ", "<<: ", "---\n", "...\n", "%YAML 1.2\n", "null", "-1", "1e999", "0x", "~", "\u{0}", "\u{85}", "é", "🐦"]
        var outcomes = (read: 0, refused: 0)
        for _ in 0..<400 {
            var bytes = original
            for _ in 0..<Int.random(in: 1...6, using: &random) {
                let place = Int.random(in: 0..<bytes.count, using: &random)
                switch Int.random(in: 0..<6, using: &random) {
                case 0: bytes[place] = UInt8.random(in: 0...255, using: &random)
                case 1: bytes.remove(at: place)
                case 2: bytes.insert(contentsOf: pieces.randomElement(using: &random)!.utf8, at: place)
                case 3:
                    let end = min(bytes.count, place + Int.random(in: 0...40, using: &random))
                    bytes.insert(contentsOf: Array(bytes[place..<end]), at: Int.random(in: 0...bytes.count, using: &random))
                case 4: bytes.removeSubrange(place..<min(bytes.count, place + Int.random(in: 0...40, using: &random)))
                default: bytes.removeSubrange(max(place, 1)...)
                }
                if bytes.isEmpty { bytes = original }
            }
            do throws(ConfigurationProblems) {
                let settings = try AgentSettings.parse(bytes, file: "f", folder: "/", environment: sampleEnvironment)
                outcomes.read += 1
                #expect(settings.difference(from: settings).isEmpty, "seed \(seed)")
            } catch {
                outcomes.refused += 1
                #expect(!error.problems.isEmpty, "seed \(seed)")
                let lines = bytes.count + 1
                #expect(error.problems.allSatisfy { $0.line >= 0 && $0.line <= lines && !$0.message.isEmpty }, "seed \(seed): \(error)")
                #expect(!error.description.contains("hunter2"), "seed \(seed)")
            }
        }
        #expect(outcomes.read > 0 && outcomes.refused > 0, "seed \(seed): \(outcomes)")
    }

    @Test func garbage() {
        var random = SeededGenerator(seed: 7)
        for length in 0..<600 {
            let bytes = (0..<length).map { _ in UInt8.random(in: 0...255, using: &random) }
            _ = try? AgentSettings.parse(bytes, file: "f", folder: "/")
            let text = (0..<length).map { _ in " \n:-[]{}\"'#&*!|>%@`,?ab1".utf8.randomElement(using: &random) ?? 0 }
            _ = try? AgentSettings.parse(text, file: "f", folder: "/")
        }
    }
}
