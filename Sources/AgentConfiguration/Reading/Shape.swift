/// What values look like, for the schema. Forms carry one beside their reading function.
indirect enum Shape: Sendable {
    case text(pattern: String?)
    /// A text that is never shown.
    case secret
    case integer(ClosedRange<Int>)
    /// An integer of bytes or a text such as `16MiB`.
    case byteSize(ClosedRange<Int>)
    case boolean
    case choice([String])
    case list(Shape, atLeast: Int)
    /// Keys that the operator chooses, all with values of one shape.
    case map(keyPattern: String?, Shape)
    case section(SectionShape)
    case anyOf([Shape])
    /// A mapping with whatever the plugin declares.
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
    /// Name of its definition in the schema.
    let name: String
    /// A function, because tables may nest.
    let keys: @Sendable () -> [KeyShape]
    /// No value at all stands for all defaults.
    let mayBeEmpty: Bool
}

struct KeyShape: Sendable {
    let name: String
    let documentation: String
    let isRequired: Bool
    let shape: Shape
    /// The default as JSON, nil where absence has no value to show.
    let defaultJSON: String?
}
