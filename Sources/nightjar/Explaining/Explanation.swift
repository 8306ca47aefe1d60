import Encodings

/// What a code that the agent reports means, and what to do about it.
struct Explanation: Sendable, Equatable {
    /// As the agent writes it: `documents_held`, `http/401`, `exit/78`.
    var code: String
    var cause: String
    var mend: String

    init(_ code: String, _ cause: String, _ mend: String) {
        self.code = code
        self.cause = cause
        self.mend = mend
    }

    /// Where the code occurs, for the list of all codes.
    enum Group: String, CaseIterable, Sendable {
        case attention = "What needs attention"
        case status = "States in status"
        case whereabouts = "States in doc why"
        case replication = "Errors of replicators and documents"
        case plugin = "Failures of plugins"
        case answer = "Answers over HTTP"
        case limit = "Limits"
        case exit = "Exit statuses"

        var explanations: [Explanation] {
            switch self {
            case .attention: Explanation.ofAttention
            case .status: Explanation.ofStatus
            case .whereabouts: Explanation.ofWhereabouts
            case .replication: Explanation.ofReplication
            case .plugin: Explanation.ofPlugins
            case .answer: Explanation.ofAnswers
            case .limit: Explanation.ofLimits
            case .exit: Explanation.ofExits
            }
        }
    }

    static let all = Group.allCases.flatMap(\.explanations)
}

/// Finds what a person means who has seen a code in a log, a status or a mail.
enum ExplanationSearch {
    /// Matching codes, the best match first; empty if there are none.
    ///
    /// - Parameter text: a code as the agent writes it, with a space or nothing between domain and number (`HTTP 401`), a number alone, or the
    ///   number that applications based on Couchbase Lite show (`11006`).
    static func find(_ text: String) -> [Explanation] {
        let wanted = normal(text)
        if let exact = Explanation.all.first(where: { $0.code == wanted }) { return [exact] }
        let (domain, number) = split(wanted)
        guard let number else { return [] }
        if let domain { return [ofNumber(domain, number)].compactMap { $0 } }
        // From 5000 on they are network or TLS errors, from 10000 on HTTP statuses or WebSocket close codes.
        let shown = [("network", number - 5_000), ("tls", number - 5_000), ("http", number - 10_000), ("websocket", number - 10_000)]
            .compactMap { domain, number in number > 0 ? exact("\(domain)/\(number)") : nil }
        if !shown.isEmpty { return shown }
        return Explanation.all.filter { $0.code.hasSuffix("/\(number)") }
    }

    /// What was found for words that may form several codes, some of them split into words, and the words that are not codes.
    ///
    /// - Parameter words: `http 401 documents_held` is two codes: words are grouped into the longest codes possible.
    static func findAll(_ words: [String]) -> (found: [Explanation], unknown: [String]) {
        let whole = find(words.joined(separator: " "))
        if !whole.isEmpty { return (whole, []) }
        var found: [Explanation] = []
        var unknown: [String] = []
        var rest = words[...]
        while let first = rest.first {
            let lengths = (1...min(rest.count, longestCode)).reversed()
            if let length = lengths.first(where: { !find(rest.prefix($0).joined(separator: " ")).isEmpty }) {
                for entry in find(rest.prefix(length).joined(separator: " ")) where !found.contains(entry) { found.append(entry) }
                rest = rest.dropFirst(length)
            } else {
                unknown.append(first)
                rest = rest.dropFirst()
            }
        }
        // Nothing matches: treat the words as one code, mistyped.
        return found.isEmpty ? ([], [words.joined(separator: " ")]) : (found, unknown)
    }

    /// Number of words in the longest code.
    private static let longestCode = Explanation.all.map { $0.code.split { $0 == "_" || $0 == "/" }.count }.max() ?? 1

    /// Codes that look similar, for a hint.
    static func similar(_ text: String) -> [String] {
        let words = Set(normal(text).split { !$0.isLetter && !$0.isNumber }.filter { $0.count > 2 }.map(String.init))
        let scored = Explanation.all.map { entry in
            (entry.code, entry.code.split { $0 == "_" || $0 == "/" }.count { part in words.contains { part.hasPrefix($0) || $0.hasPrefix(part) } })
        }
        return scored.filter { $0.1 > 0 }.sorted { $0.1 > $1.1 }.prefix(5).map(\.0)
    }

    /// Normalises `HTTP 401:` and `http-401` to `http/401`.
    private static func normal(_ text: String) -> String {
        var clean = ""
        for scalar in text.lowercased().unicodeScalars {
            switch scalar {
            case "a"..."z", "0"..."9", "_", "/": clean.unicodeScalars.append(scalar)
            case " ", "-", ":": if !clean.isEmpty { clean += clean.contains("/") || !hasOnlyLetters(clean) ? "_" : "/" }
            default: break
            }
        }
        while clean.hasSuffix("_") || clean.hasSuffix("/") { clean.removeLast() }
        // The words of a code, written separately: documents held.
        let joined = clean.with("/", replacedBy: "_")
        return Explanation.all.contains { $0.code == joined } ? joined : clean
    }

    private static func hasOnlyLetters(_ text: String) -> Bool { text.unicodeScalars.allSatisfy { ("a"..."z").contains($0) } }

    private static func split(_ code: String) -> (domain: String?, number: Int?) {
        if let number = Int(code) { return (nil, number) }
        let parts = code.split(separator: "/")
        guard parts.count == 2, let number = Int(parts[1]) else { return (nil, nil) }
        return (String(parts[0]), number)
    }

    private static func exact(_ code: String) -> Explanation? { Explanation.all.first { $0.code == code } }

    /// For unexpected numbers from peers, an explanation of their class.
    private static func ofNumber(_ domain: String, _ number: Int) -> Explanation? {
        if let known = exact("\(domain)/\(number)") { return known }
        switch (domain, number) {
        case ("http", 300..<400): return exact("http/3xx")
        case ("http", 400..<500): return exact("http/4xx")
        case ("http", 500..<600): return exact("http/5xx")
        case ("websocket", 300..<600): return ofNumber("http", number)
        case ("websocket", _): return exact("websocket/other")
        case ("litecore", _), ("blip", _), ("network", _), ("tls", _): return exact("\(domain)/other")
        default: return nil
        }
    }
}
