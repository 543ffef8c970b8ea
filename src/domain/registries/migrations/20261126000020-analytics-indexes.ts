import { Migration } from "@mikro-orm/migrations";

/**
 * What players gained in a range is found without reading all that they ever gained: rows of these tables are
 * only added, in the order of time, so that an index of blocks is enough.
 */
export class Migration20261126000020 extends Migration {
  override up(): void {
    for (const table of ["ledger_entries", "badge_awards"])
      this.addSql(`create index ${table}_time_idx on ${table} using brin (created_at)`);
    this.addSql(`create index outbox_level_up_idx on outbox (project_id, id) where type = 'player.level_up'`);
  }

  override down(): void {
    for (const index of ["ledger_entries_time_idx", "badge_awards_time_idx", "outbox_level_up_idx"])
      this.addSql(`drop index ${index}`);
  }
}
