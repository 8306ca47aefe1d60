/// A copy-on-write value. For documents, which go from event to queue to action and hardly ever change on the way: copying all of their fields at
/// each step costs more than the work done.
@dynamicMemberLookup
struct Shared<Fields: Sendable>: Sendable {
    /// Sendable although it is mutable: it is only mutated through a unique reference.
    private final class Box: @unchecked Sendable {
        var fields: Fields
        init(_ fields: Fields) { self.fields = fields }
    }

    private var box: Box

    init(_ fields: Fields) { box = Box(fields) }

    subscript<Value>(dynamicMember path: KeyPath<Fields, Value>) -> Value {
        @inline(__always) get { box.fields[keyPath: path] }
    }

    subscript<Value>(dynamicMember path: WritableKeyPath<Fields, Value>) -> Value {
        @inline(__always) get { box.fields[keyPath: path] }
        @inline(__always) _modify {
            if !isKnownUniquelyReferenced(&box) { box = Box(box.fields) }
            yield &box.fields[keyPath: path]
        }
    }
}
