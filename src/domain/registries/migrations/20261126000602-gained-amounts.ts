import { Migration } from "@mikro-orm/migrations";

/** What rollups of gains read of the ledger. On a large one, build it before: see Upgrading in operate.md. */
export class Migration20261126000602 extends Migration {
  override up(): void {
    this.addSql(
      `create index if not exists ledger_entries_gain_idx on ledger_entries (project_id, id)
        where amount > 0 and reverses is null and tx_id is null and asset in ('XP', 'CURRENCY')`,
    );
  }

  override down(): void {
    this.addSql(`drop index ledger_entries_gain_idx`);
  }
}
