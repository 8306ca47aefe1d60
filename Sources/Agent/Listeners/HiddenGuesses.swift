import Encodings
import Replication

/// Peers that seem to guess the contents of documents hidden from them.
extension PeerListener {
    static func guessing(_ who: String) -> String {
        "\(who) named \(Plural.count(HiddenConflicts.limit, "revision")) or more within an hour that do not exist, of documents that are hidden from it: it may be "
            + "guessing their content, so until the hour is over all its writes to such documents are answered as conflicts (hidden_conflicts)"
    }

    func guessAttention(_ subject: String) -> [Attention] {
        let exhausted = hiddenConflicts.exhausted
        guard let first = exhausted.first else { return [] }
        let others = exhausted.count > 1 ? "; so did \(Plural.count(exhausted.count - 1, "other"))" : ""
        return [
            Attention(
                .hiddenConflicts, subject, Self.guessing(first) + others,
                remedy: "find out whose login that is and what it writes: remove the user, or give it the channels of the documents that it edits")
        ]
    }
}
