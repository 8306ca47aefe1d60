import Documents
import Environment

/// Documents that one machine creates and deletes, and perhaps creates again, while another creates one of the same id: their revisions cross on the wire, and
/// each side decides a conflict of which the other may have seen another half.
extension Simulation {
    /// Takes its chances from a source of its own, so that the rest of a seed's run stays as it is.
    func scheduleRecreations(_ round: Int, _ start: UInt64) {
        let random = SeededRandom(seed: plan.seed ^ 0x2EC4EA7E ^ UInt64(round) << 32)
        for number in 0..<(2 + random.below(6)) {
            let id = DocumentID(stored: "n\(round)-\(number)")
            let first = random.below(agents.count)
            let second = (first + 1 + random.below(agents.count - 1)) % agents.count
            let begin = start + random.next() % Self.window
            recreate(agents[first], id, "\(round)-first", from: begin, edits: 2 + random.below(2), random)
            recreate(agents[second], id, "\(round)-second", from: begin + random.next() % 20_000_000, edits: 1 + random.below(3), random)
        }
    }

    /// Creates the document, deletes it, creates it, and so on, up to so many edits, with pauses in which a message may or may not arrive.
    private func recreate(
        _ agent: SimulatedAgent, _ id: DocumentID, _ mark: String, from begin: UInt64, edits: Int, _ random: SeededRandom
    ) {
        var time = begin
        for edit in 0..<edits {
            scheduler.at(time, agent.number, .load) { [unowned self] in write(agent, id, "\(mark)-\(edit)", deletes: edit % 2 == 1) }
            time += 100_000 + random.next() % (random.chance(0.5) ? 3_000_000 : 50_000_000)
        }
    }

    /// All machines create, edit and delete the same few documents, several times a round trip. It takes its chances from a source of its own, too.
    func scheduleChurn(_ round: Int, _ start: UInt64) {
        let random = SeededRandom(seed: plan.seed ^ 0xC4124 ^ UInt64(round) << 32)
        let begin = start + random.next() % (Self.window / 2)
        let length = Self.window / 20 + random.next() % (Self.window / 4)
        for number in 0..<(40 + random.below(120)) {
            let agent = agents[random.below(agents.count)]
            let (id, deletes) = (DocumentID(stored: "n-\(random.below(5))"), random.chance(0.5))
            scheduler.at(begin + random.next() % length, agent.number, .load) { [unowned self] in write(agent, id, "\(round)-churn-\(number)", deletes: deletes) }
        }
    }
}
