import Documents

/// Whether and how an index can answer a query. It contains only documents that have all of its fields, so the selector has to require them.
package struct IndexUse: Sendable, Equatable {
    /// Why an index cannot answer a query, in CouchDB's terms.
    package enum Obstacle: String, Error, Sendable {
        case isPartial = "is_partial"
        case fieldMismatch = "field_mismatch"
        case sortOrderMismatch = "sort_order_mismatch"
    }

    package let range: IndexRange
    /// How much it narrows the search: two for a field with a fixed value, one for a range.
    package let weight: Int

    /// - Parameter isNamed: the query requests this index, even if it is partial.
    package static func of(
        _ index: IndexDefinition, _ selector: Selector, _ sort: SortOrder, isNamed: Bool
    ) -> Result<IndexUse, Obstacle> {
        if index.partial != nil, !isNamed { return .failure(.isPartial) }
        let implied = sort.paths.map(\.text) + ["_id", "_rev"]
        for path in index.order.paths where !implied.contains(where: { $0.utf8.elementsEqual(path.text.utf8) }) {
            guard selector.condition.requires(path) else { return .failure(.fieldMismatch) }
        }
        let bounds = index.order.paths.map { FieldBounds($0, selector.condition) }
        guard isInOrder(index.order.paths, bounds, sort.paths) else { return .failure(.sortOrderMismatch) }
        return .success(IndexUse(bounds))
    }

    private init(_ bounds: [FieldBounds]) {
        var start: [UInt8] = []
        var weight = 0
        for field in bounds {
            if field.isEmpty {
                range = IndexRange(low: [], high: [])
                self.weight = .max
                return
            }
            guard let equal = field.equal else {
                range = IndexRange(low: start + field.low, high: field.high.map { start + $0 } ?? CollationKey.successor(of: start))
                self.weight = weight + (field.isBounded ? 1 : 0)
                return
            }
            start += equal
            weight += 2
        }
        range = IndexRange(low: start, high: CollationKey.successor(of: start))
        self.weight = weight
    }

    /// Fields with a fixed value do not affect the order.
    private static func isInOrder(_ columns: [FieldPath], _ bounds: [FieldBounds], _ sort: [FieldPath]) -> Bool {
        if sort.isEmpty { return true }
        for (index, column) in columns.enumerated() {
            if column == sort[0], columns[index...].starts(with: sort) { return true }
            guard bounds[index].equal != nil else { return false }
        }
        return false
    }
}

extension Condition {
    /// Whether documents without the field are never selected.
    func requires(_ path: FieldPath) -> Bool {
        switch self {
        case .all(let parts): parts.contains { $0.requires(path) }
        case .any(let parts): !parts.isEmpty && parts.allSatisfy { $0.requires(path) }
        case .field(let other, let test): other == path && !test.isOfAbsence
        }
    }
}
