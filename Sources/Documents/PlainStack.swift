/// A stack of plain values for one pass over a text. It has a single owner, so that, unlike an array, it need not check at each step whether its
/// memory is shared.
struct PlainStack<Element: BitwiseCopyable>: ~Copyable {
    private var base: UnsafeMutablePointer<Element>?
    private var capacity = 0
    private(set) var count = 0

    /// - Parameter capacity: number of elements for which memory is allocated with the first one.
    init(capacity: Int) { firstCapacity = max(1, capacity) }

    private let firstCapacity: Int

    deinit { base?.deallocate() }

    @inline(__always)
    subscript(index: Int) -> Element {
        get {
            precondition(index >= 0 && index < count, "beyond the stack")
            return base.unsafelyUnwrapped[index]
        }
        set {
            precondition(index >= 0 && index < count, "beyond the stack")
            base.unsafelyUnwrapped[index] = newValue
        }
    }

    @inline(__always)
    mutating func append(_ element: Element) {
        if count == capacity { grow() }
        (base.unsafelyUnwrapped + count).initialize(to: element)
        count += 1
    }

    @inline(never)
    private mutating func grow() {
        let larger = capacity == 0 ? firstCapacity : capacity * 2
        let memory = UnsafeMutablePointer<Element>.allocate(capacity: larger)
        if let base {
            memory.moveInitialize(from: base, count: count)
            base.deallocate()
        }
        (base, capacity) = (memory, larger)
    }

    /// Pops all but the first `kept` elements.
    @inline(__always)
    mutating func cut(to kept: Int) {
        precondition(kept >= 0 && kept <= count, "beyond the stack")
        count = kept
    }

    /// Calls `body` with the elements from `first` on.
    @inline(__always)
    mutating func withElements<Result>(from first: Int, _ body: (UnsafeMutableBufferPointer<Element>) -> Result) -> Result {
        precondition(first >= 0 && first <= count, "beyond the stack")
        return body(UnsafeMutableBufferPointer(start: base.map { $0 + first }, count: count - first))
    }
}
