/// Builds the Prometheus text exposition format, version 0.0.4: families in the order in which they first appear, each with its
/// samples together.
struct PrometheusText {
    enum Kind: String { case counter, gauge, histogram }

    private struct Family {
        var kind: Kind
        var help: String
        var lines: [String] = []
    }

    private var names: [String] = []
    private var families: [String: Family] = [:]

    static let contentType = "text/plain; version=0.0.4; charset=utf-8"

    /// Adds a sample. If its name already exists with a different kind, it is dropped: the format allows only one kind per
    /// name.
    mutating func add(_ kind: Kind, _ name: String, _ help: String, _ labels: [(String, String)], _ value: Double) {
        line(kind, name, help, "\(name)\(Self.text(labels)) \(Self.text(value))")
    }

    mutating func add(_ kind: Kind, _ name: String, _ help: String, _ labels: [(String, String)], _ value: some BinaryInteger) {
        line(kind, name, help, "\(name)\(Self.text(labels)) \(value)")
    }

    /// - Parameter buckets: counts with their upper bounds, not cumulative; the last bound is nil.
    mutating func add(
        _ name: String, _ help: String, _ labels: [(String, String)], buckets: [(bound: Double?, count: UInt64)], sum: Double
    ) {
        var total: UInt64 = 0
        for bucket in buckets {
            total += bucket.count
            let bound = bucket.bound.map(Self.text) ?? "+Inf"
            line(.histogram, name, help, "\(name)_bucket\(Self.text(labels + [("le", bound)])) \(total)")
        }
        line(.histogram, name, help, "\(name)_sum\(Self.text(labels)) \(Self.text(sum))")
        line(.histogram, name, help, "\(name)_count\(Self.text(labels)) \(total)")
    }

    private mutating func line(_ kind: Kind, _ name: String, _ help: String, _ text: String) {
        if families[name] == nil {
            names.append(name)
            families[name] = Family(kind: kind, help: help)
        }
        guard families[name]?.kind == kind else { return }
        families[name]?.lines.append(text)
    }

    var text: String {
        var text = ""
        for name in names {
            guard let family = families[name] else { continue }
            text += "# HELP \(name) \(Self.escaped(family.help, quotes: false))\n# TYPE \(name) \(family.kind.rawValue)\n"
            for line in family.lines { text += line + "\n" }
        }
        return text
    }

    private static func text(_ labels: [(String, String)]) -> String {
        if labels.isEmpty { return "" }
        return "{" + labels.map { "\($0.0)=\"\(escaped($0.1, quotes: true))\"" }.joined(separator: ",") + "}"
    }

    private static func text(_ value: Double) -> String {
        if let whole = Int64(exactly: value) { return "\(whole)" }
        return value.isNaN ? "NaN" : value.isInfinite ? (value < 0 ? "-Inf" : "+Inf") : "\(value)"
    }

    private static func escaped(_ text: String, quotes: Bool) -> String {
        var out = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\\": out += "\\\\"
            case "\n": out += "\\n"
            case "\"" where quotes: out += "\\\""
            default: out.unicodeScalars.append(scalar)
            }
        }
        return out
    }
}
