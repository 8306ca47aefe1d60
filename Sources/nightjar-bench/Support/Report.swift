/// One measured quantity, with one value per round.
struct Series: Sendable {
    var label: String
    var unit: String
    var values: [Double]

    var median: Double { values.sorted().median }
    var minimum: Double { values.min() ?? 0 }
    var maximum: Double { values.max() ?? 0 }
}

extension [Double] {
    /// Of values in ascending order; 0 if there are none.
    var median: Double {
        guard !isEmpty else { return 0 }
        return count % 2 == 1 ? self[count / 2] : (self[count / 2 - 1] + self[count / 2]) / 2
    }

    /// The value below which the given fraction of the values lies; the values must be in ascending order; 0 if there are none.
    func quantile(_ part: Double) -> Double {
        isEmpty ? 0 : self[Swift.min(count - 1, Int(Double(count) * part))]
    }
}

/// A figure to reach, and the measurements. The median decides.
struct Goal: Sendable {
    enum Side: String, Sendable {
        case atLeast = "at least"
        case atMost = "at most"
    }

    var series: Series
    var side: Side
    var bar: Double

    var isReached: Bool { side == .atLeast ? series.median >= bar : series.median <= bar }
}

/// The measurements of one scenario.
struct Report: Sendable {
    var scenario: String
    var title: String
    var series: [Series] = []
    var goals: [Goal] = []
    /// What readers must know to judge the figures.
    var notes: [String] = []

    mutating func add(_ label: String, _ unit: String, _ values: [Double]) {
        series.append(Series(label: label, unit: unit, values: values))
    }

    mutating func goal(_ label: String, _ unit: String, _ values: [Double], _ side: Goal.Side, _ bar: Double) {
        goals.append(Goal(series: Series(label: label, unit: unit, values: values), side: side, bar: bar))
    }

    var table: String {
        var rows = [["", "median", "min", "max", "unit", "bar", "reached"]]
        for entry in series { rows.append(entry.cells + ["", ""]) }
        for goal in goals { rows.append(goal.series.cells + ["\(goal.side.rawValue) \(Format.number(goal.bar))", goal.isReached ? "yes" : "NO"]) }
        var text = "\(scenario): \(title)\n" + Format.table(rows)
        for note in notes { text += "  \(note)\n" }
        return text
    }

    var json: String {
        let series = series.map(\.json).joined(separator: ",")
        let goals = goals.map { goal in
            """
            {"side":\(Format.quoted(goal.side.rawValue)),"bar":\(goal.bar),"reached":\(goal.isReached),"measured":\(goal.series.json)}
            """
        }.joined(separator: ",")
        let notes = notes.map(Format.quoted).joined(separator: ",")
        return """
            {"scenario":\(Format.quoted(scenario)),"title":\(Format.quoted(title)),"series":[\(series)],"goals":[\(goals)],"notes":[\(notes)]}
            """
    }

    /// All goals of several reports in one table.
    static func summary(_ reports: [Report]) -> String {
        var rows = [["scenario", "what", "bar", "median", "min", "max", "unit", "reached"]]
        for report in reports {
            for goal in report.goals {
                let cells = goal.series.cells
                rows.append([
                    report.scenario, cells[0], "\(goal.side.rawValue) \(Format.number(goal.bar))", cells[1], cells[2], cells[3], cells[4],
                    goal.isReached ? "yes" : "NO",
                ])
            }
        }
        return Format.table(rows)
    }
}

extension Series {
    var cells: [String] { [label, Format.number(median), Format.number(minimum), Format.number(maximum), unit] }

    var json: String {
        let values = values.map { "\($0)" }.joined(separator: ",")
        return """
            {"label":\(Format.quoted(label)),"unit":\(Format.quoted(unit)),"median":\(median),"min":\(minimum),"max":\(maximum),"values":[\(values)]}
            """
    }
}
