/// Something that keeps a scenario from being measured. A figure below its bar is no error.
struct BenchError: Error, CustomStringConvertible {
    var description: String
    init(_ description: String) { self.description = description }
}
