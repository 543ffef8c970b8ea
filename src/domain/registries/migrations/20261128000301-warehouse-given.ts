import { Migration } from "@mikro-orm/migrations";
import { NIL_ID } from "../../kernel/ids.ts";

const CHANGES = ["CHANGED", "ERASED", "MERGED"];
const PARTS = ["events", "changes", "merges"];

const kinds = (table: string, names: readonly string[]): string =>
  `alter table ${table} drop constraint ${table}_kind_check,
    add constraint ${table}_kind_check check (kind in (${names.map((name) => `'${name}'`).join(", ")}))`;

/**
 * Files for a warehouse have lines of the ledger that belong to no event, and grants of rewards. On a large
 * ledger, build its index before: see Upgrading in operate.md.
 */
export class Migration20261128000301 extends Migration {
  override up(): void {
    for (const statement of [
      `alter table warehouse_projects
        add column ledger_cursor uuid not null default '${NIL_ID}',
        add column rewards_cursor uuid not null default '${NIL_ID}'`,
      kinds("warehouse_changes", [...CHANGES, "REWARD"]),
      kinds("warehouse_parts", [...PARTS, "ledger", "rewards"]),
      `create index if not exists ledger_entries_no_event_idx on ledger_entries (project_id, id)
        where event_id is null`,
      `create index if not exists reward_grants_id_idx on reward_grants (project_id, id)`,
    ])
      this.addSql(statement);
  }

  override down(): void {
    for (const statement of [
      "drop index ledger_entries_no_event_idx",
      "drop index reward_grants_id_idx",
      "delete from warehouse_changes where kind = 'REWARD'",
      "delete from warehouse_parts where kind in ('ledger', 'rewards')",
      kinds("warehouse_changes", CHANGES),
      kinds("warehouse_parts", PARTS),
      "alter table warehouse_projects drop column ledger_cursor, drop column rewards_cursor",
    ])
      this.addSql(statement);
  }
}
