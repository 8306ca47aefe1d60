/// Why a scenario could not be measured. A figure that misses its goal is not an error.
struct BenchError: Error, CustomStringConvertible {
    var description: String
    init(_ description: String) { self.description = description }
}
