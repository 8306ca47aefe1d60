/// Finds the name that somebody probably meant.
package enum NearestName {
    /// The candidate with the smallest edit distance, if it is small enough for a typing error.
    package static func nearest(to name: String, among candidates: some Sequence<String>) -> String? {
        let wanted = Array(name.utf8.map(lowercased))
        guard !wanted.isEmpty, wanted.count <= Limits.suggestionBytes else { return nil }
        var best: (name: String, distance: Int)?
        for candidate in candidates.prefix(Limits.suggestionCandidates) where candidate.utf8.count <= Limits.suggestionBytes {
            let distance = distance(wanted, Array(candidate.utf8.map(lowercased)))
            if distance < best?.distance ?? .max { best = (candidate, distance) }
        }
        guard let best, best.distance <= max(1, min(wanted.count, best.name.utf8.count) / 3) else { return nil }
        return best.name
    }

    /// `; did you mean "port"?`, or otherwise the list of candidates.
    package static func hint(for name: String, among candidates: [String], otherwise label: String) -> String {
        if let nearest = nearest(to: name, among: candidates) { return "; did you mean \"\(nearest)\"?" }
        guard !candidates.isEmpty else { return "" }
        let listed = candidates.prefix(30).joined(separator: ", ")
        return "; \(label): \(listed)\(candidates.count > 30 ? ", …" : "")"
    }

    /// Counts insertions, deletions, substitutions and swaps of neighbours (optimal string alignment).
    static func distance(_ left: [UInt8], _ right: [UInt8]) -> Int {
        var beforeLast = [Int](repeating: 0, count: right.count + 1)
        var last = Array(0...right.count)
        var current = last
        for i in left.indices {
            current[0] = i + 1
            for j in right.indices {
                var cost = min(last[j + 1] + 1, current[j] + 1, last[j] + (left[i] == right[j] ? 0 : 1))
                if i > 0, j > 0, left[i] == right[j - 1], left[i - 1] == right[j] { cost = min(cost, beforeLast[j - 1] + 1) }
                current[j + 1] = cost
            }
            (beforeLast, last, current) = (last, current, beforeLast)
        }
        return last[right.count]
    }

    /// Treats dashes as underscores and ignores case, so that `deltaSync` and `delta-sync` are close to `delta_sync`.
    private static func lowercased(_ byte: UInt8) -> UInt8 {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): byte + 32
        case UInt8(ascii: "-"): UInt8(ascii: "_")
        default: byte
        }
    }
}
