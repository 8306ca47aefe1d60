/// The shape of values, for the schema. Each form has one in addition to its reading function.
indirect enum Shape: Sendable {
    case text(pattern: String?)
    /// A text that is never shown.
    case secret
    case integer(ClosedRange<Int>)
    /// An integer number of bytes, or a text such as `16MiB`.
    case byteSize(ClosedRange<Int>)
    case boolean
    case choice([String])
    case list(Shape, atLeast: Int)
    /// Keys that the operator chooses, with values of the same shape.
    case map(keyPattern: String?, Shape)
    case section(SectionShape)
    case anyOf([Shape])
    /// A mapping with any contents, which the plugin declares.
    case params

    /// The sections reachable from here without passing through another section.
    var sections: [SectionShape] {
        switch self {
        case .section(let section): [section]
        case .list(let element, _): element.sections
        case .map(_, let value): value.sections
        case .anyOf(let shapes): shapes.flatMap(\.sections)
        default: []
        }
    }
}

struct SectionShape: Sendable {
    /// The name of its definition in the schema.
    let name: String
    /// A function, because tables may be recursive.
    let keys: @Sendable () -> [KeyShape]
    /// Whether it may be written without a value, which means all defaults.
    let mayBeEmpty: Bool
}

struct KeyShape: Sendable {
    let name: String
    let documentation: String
    let isRequired: Bool
    let shape: Shape
    /// The default as JSON; nil if there is no default value to show.
    let defaultJSON: String?
}
