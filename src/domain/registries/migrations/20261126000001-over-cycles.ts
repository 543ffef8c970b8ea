import { Migration } from "@mikro-orm/migrations";

/** Cycles of quests that are over, by how long nothing has changed them: they are deleted after a year. */
export class Migration20261126000001 extends Migration {
  override up(): void {
    this.addSql(`create index player_quests_over_idx on player_quests (updated_at) where not is_live`);
  }

  override down(): void {
    this.addSql(`drop index player_quests_over_idx`);
  }
}
