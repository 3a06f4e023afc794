//! Who may come in, and how: HBA rules and ident maps, parsed, matched and explained.
