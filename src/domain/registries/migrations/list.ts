import { BASELINE, Baseline } from "./baseline.ts";
import { Migration20261129000101 } from "./20261129000101-first-seen.ts";
import { Migration20261129000102 } from "./20261129000102-mail-refusals.ts";
import { Migration20261129000103 } from "./20261129000103-edited-badges.ts";
import { Migration20261129000201 } from "./20261129000201-claims-in-hand.ts";
import { Migration20261129000301 } from "./20261129000301-missing-records.ts";
import { Migration20261129000401 } from "./20261129000401-players-by-prefix.ts";
import { Migration20261130000101 } from "./20261130000101-closed-days.ts";
import { Migration20261130000201 } from "./20261130000201-unused-addresses.ts";

/** Every migration, in order. */
export const migrations = [
  { name: BASELINE, class: Baseline },
  { name: "20261129000101-first-seen", class: Migration20261129000101 },
  { name: "20261129000102-mail-refusals", class: Migration20261129000102 },
  { name: "20261129000103-edited-badges", class: Migration20261129000103 },
  { name: "20261129000201-claims-in-hand", class: Migration20261129000201 },
  { name: "20261129000301-missing-records", class: Migration20261129000301 },
  { name: "20261129000401-players-by-prefix", class: Migration20261129000401 },
  { name: "20261130000101-closed-days", class: Migration20261130000101 },
  { name: "20261130000201-unused-addresses", class: Migration20261130000201 },
];
