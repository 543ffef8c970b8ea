import { Migration } from "@mikro-orm/migrations";

/**
 * How many of an entry's scores are recorded with the firings of rules that submitted them; null where others
 * took part too, as in all entries from before.
 */
export class Migration20261123000004 extends Migration {
  override up(): void {
    this.addSql(`alter table leaderboard_entries add column recorded int`);
  }

  override down(): void {
    this.addSql(`alter table leaderboard_entries drop column recorded`);
  }
}
