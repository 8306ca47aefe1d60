import Glibc
import TestRandomness
import TestSupport
import Testing

/// The kept inputs, changed at random: what can be had of fuzzing where there is no libFuzzer. `NIGHTJAR_MUTATE=SECONDS` for each target runs it, with
/// `NIGHTJAR_MUTATE_SEED` for another order.
@Suite("Changed inputs of the fuzz targets", .serialized, .enabled(if: getenv("NIGHTJAR_MUTATE") != nil, "NIGHTJAR_MUTATE=SECONDS runs it"))
struct MutationTests {
    @Test("hold", arguments: FuzzTarget.all)
    func mutate(_ target: FuzzTarget) async throws {
        let seconds = getenv("NIGHTJAR_MUTATE").flatMap { Int(String(cString: $0)) } ?? 1
        let seed = getenv("NIGHTJAR_MUTATE_SEED").flatMap { UInt64(String(cString: $0)) } ?? 1
        let seeds = try ReplayTests.inputs(of: target)
        let outcome = try await offThread { () -> Outcome in
            var random = SeededGenerator(seed: seed)
            let end = ContinuousClock.now + .seconds(seconds)
            var count = 0
            while ContinuousClock.now < end {
                let input = Array(Self.changed(seeds, &random).prefix(target.longestInput))
                count += 1
                do { try target.run(input) } catch let finding as FuzzFinding { return Outcome(count: count, finding: "\(finding)\n\(input)") } catch {}
            }
            return Outcome(count: count)
        }
        print("\(target.name): \(outcome.count) inputs in \(seconds) s")
        if let finding = outcome.finding { Issue.record("\(target.name): \(finding)") }
    }

    private struct Outcome: Sendable {
        var count: Int
        var finding: String?
    }

    private static func changed(_ seeds: [[UInt8]], _ random: inout SeededGenerator) -> [UInt8] {
        var input = seeds[Int.random(in: 0..<seeds.count, using: &random)]
        for _ in 0...Int.random(in: 0...6, using: &random) {
            let at = Int.random(in: 0...input.count, using: &random)
            switch Int.random(in: 0...6, using: &random) {
            case 0 where at < input.count: input[at] ^= 1 << UInt8.random(in: 0...7, using: &random)
            case 1 where at < input.count: input[at] = UInt8.random(in: 0...255, using: &random)
            case 2: input.insert(UInt8.random(in: 0...255, using: &random), at: at)
            case 3: input.removeSubrange(at..<min(input.count, at + Int.random(in: 1...20, using: &random)))
            case 4:
                // A piece of another input, or of this one.
                let other = seeds[Int.random(in: 0..<seeds.count, using: &random)]
                guard !other.isEmpty else { continue }
                let from = Int.random(in: 0..<other.count, using: &random)
                input.insert(contentsOf: other[from..<min(other.count, from + Int.random(in: 1...40, using: &random))], at: at)
            case 5 where at < input.count: input.insert(contentsOf: input[at..<min(input.count, at + Int.random(in: 1...30, using: &random))], at: at)
            case 6 where at < input.count:
                let telling: [UInt8] = [0, 0xFF, 0x7F, 0x80, 0x0A, 0x0D, 0x22, 0x2C, 0x30, 0x39, 0x5B, 0x5C, 0x7B, 0x7D]
                input[at] = telling[Int.random(in: 0..<telling.count, using: &random)]
            default: continue
            }
        }
        return input
    }
}
