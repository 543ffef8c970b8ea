import { Migration20261121000001 } from "./20261121000001-accounts.ts";
import { Migration20261121000002 } from "./20261121000002-events.ts";
import { Migration20261121000003 } from "./20261121000003-progression.ts";
import { Migration20261121000004 } from "./20261121000004-refresh-tokens.ts";

/** Every migration, in order. */
export const migrations = [
  { name: "20261121000001-accounts", class: Migration20261121000001 },
  { name: "20261121000002-events", class: Migration20261121000002 },
  { name: "20261121000003-progression", class: Migration20261121000003 },
  { name: "20261121000004-refresh-tokens", class: Migration20261121000004 },
];
