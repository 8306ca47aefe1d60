import Documents
import Selectors

func json(_ text: String) throws -> JSONValue { try JSONValue(parsing: text) }

func selector(_ text: String) throws -> Selector { try Selector(try JSONValue(parsing: text)) }
