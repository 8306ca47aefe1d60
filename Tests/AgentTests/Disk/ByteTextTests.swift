import Testing

@testable import Agent

/// Sizes in texts for people.
@Suite struct ByteTextTests {
    private static let sizes: [(Int, String)] = [
        (0, "0 bytes"), (1_023, "1023 bytes"), (1_024, "1 KiB"), (1_025, "1.1 KiB"), (1_047_552, "1023 KiB"), (1_048_575, "1 MiB"), (1_048_576, "1 MiB"),
        (1_992_294, "1.9 MiB"), (1_992_295, "2 MiB"), (10_485_760, "10 MiB"), (10_485_761, "10.1 MiB"), (1_610_612_736, "1.5 GiB"), (1 << 50, "1024 TiB"),
        (.max, "8388608 TiB"),
    ]

    @Test("a size never reads as less than it is, and in the unit that people use", arguments: sizes)
    func text(_ bytes: Int, _ text: String) { #expect(ByteText.of(bytes) == text) }
}
