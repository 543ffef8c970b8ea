import { Migration20261121000001 } from "./20261121000001-accounts.ts";
import { Migration20261121000002 } from "./20261121000002-events.ts";
import { Migration20261121000003 } from "./20261121000003-progression.ts";
import { Migration20261121000004 } from "./20261121000004-refresh-tokens.ts";
import { Migration20261121000005 } from "./20261121000005-access.ts";
import { Migration20261121000006 } from "./20261121000006-row-security.ts";
import { Migration20261121000007 } from "./20261121000007-economy.ts";
import { Migration20261121000008 } from "./20261121000008-rewards-and-rules.ts";
import { Migration20261121000009 } from "./20261121000009-periods.ts";
import { Migration20261121000010 } from "./20261121000010-lobbies.ts";
import { Migration20261121000011 } from "./20261121000011-chat.ts";
import { Migration20261121000012 } from "./20261121000012-webhooks.ts";
import { Migration20261122000001 } from "./20261122000001-known-origins.ts";
import { Migration20261122000002 } from "./20261122000002-state-bytes.ts";
import { Migration20261122000003 } from "./20261122000003-outbox-lanes.ts";
import { Migration20261122000004 } from "./20261122000004-running-sizes.ts";
import { Migration20261122000005 } from "./20261122000005-job-turns.ts";

/** Every migration, in order. */
export const migrations = [
  { name: "20261121000001-accounts", class: Migration20261121000001 },
  { name: "20261121000002-events", class: Migration20261121000002 },
  { name: "20261121000003-progression", class: Migration20261121000003 },
  { name: "20261121000004-refresh-tokens", class: Migration20261121000004 },
  { name: "20261121000005-access", class: Migration20261121000005 },
  { name: "20261121000006-row-security", class: Migration20261121000006 },
  { name: "20261121000007-economy", class: Migration20261121000007 },
  { name: "20261121000008-rewards-and-rules", class: Migration20261121000008 },
  { name: "20261121000009-periods", class: Migration20261121000009 },
  { name: "20261121000010-lobbies", class: Migration20261121000010 },
  { name: "20261121000011-chat", class: Migration20261121000011 },
  { name: "20261121000012-webhooks", class: Migration20261121000012 },
  { name: "20261122000001-known-origins", class: Migration20261122000001 },
  { name: "20261122000002-state-bytes", class: Migration20261122000002 },
  { name: "20261122000003-outbox-lanes", class: Migration20261122000003 },
  { name: "20261122000004-running-sizes", class: Migration20261122000004 },
  { name: "20261122000005-job-turns", class: Migration20261122000005 },
];
