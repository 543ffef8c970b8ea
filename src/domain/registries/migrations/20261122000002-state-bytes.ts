import { Migration } from "@mikro-orm/migrations";

/** The bytes of a player's document as JSON; null where it was written before they were noted. */
export class Migration20261122000002 extends Migration {
  override up(): void {
    this.addSql(`alter table player_states add column bytes int`);
  }

  override down(): void {
    this.addSql(`alter table player_states drop column bytes`);
  }
}
