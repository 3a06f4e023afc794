//! Meanings of styles. Colours are those of the terminal's own theme; no meaning is told by colour alone.

use ratatui::style::{Color, Modifier, Style};

/// Meaning of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Bad,
    Chosen,
    Faint,
    Good,
    Heading,
    Info,
    Plain,
    Strong,
    Warn,
}

impl Tone {
    /// Tone of a severity.
    pub(super) fn of_severity(word: &str) -> Self {
        match word {
            "critical" => Self::Bad,
            "warning" => Self::Warn,
            "info" => Self::Info,
            _ => Self::Plain,
        }
    }

    pub(super) fn style(self, has_color: bool) -> Style {
        let style = Style::new();
        let color = |color: Color| if has_color { style.fg(color) } else { style };
        match self {
            Self::Bad => color(Color::Red).add_modifier(Modifier::BOLD),
            Self::Chosen => style.add_modifier(Modifier::REVERSED),
            Self::Faint => style.add_modifier(Modifier::DIM),
            Self::Good => color(Color::Green),
            Self::Heading => color(Color::Cyan).add_modifier(Modifier::BOLD),
            Self::Info => color(Color::Blue),
            Self::Plain => style,
            Self::Strong => style.add_modifier(Modifier::BOLD),
            Self::Warn => color(Color::Yellow).add_modifier(Modifier::BOLD),
        }
    }
}

/// Style of answers that are not renewed.
pub(super) fn stale(has_color: bool) -> Style {
    if has_color {
        Style::new().fg(Color::DarkGray)
    } else {
        Style::new().add_modifier(Modifier::DIM)
    }
}
