import { Migration } from "@mikro-orm/migrations";

/** Size of a player's document as JSON, in bytes; null where it was written before sizes were recorded. */
export class Migration20261122000002 extends Migration {
  override up(): void {
    this.addSql(`alter table player_states add column bytes int`);
  }

  override down(): void {
    this.addSql(`alter table player_states drop column bytes`);
  }
}
