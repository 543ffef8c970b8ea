import { Migration } from "@mikro-orm/migrations";

/**
 * Lists of a quest's or adventure's players by columns that stay: a row that goes on by a percent is
 * rewritten in its page, and no index of it.
 */
export class Migration20261124000030 extends Migration {
  override up(): void {
    this.replace("player_quests", "player_quests_quest_idx", "quest_key, started_at, id");
    this.replace("player_adventures", "player_adventures_adventure_idx", "adventure_key, player_id");
  }

  override down(): void {
    this.replace("player_quests", "player_quests_quest_idx", "quest_key, updated_at, player_id");
    this.replace(
      "player_adventures",
      "player_adventures_adventure_idx",
      "adventure_key, updated_at, player_id",
    );
  }

  private replace(table: string, index: string, columns: string): void {
    this.addSql(`drop index ${index}`);
    this.addSql(`create index ${index} on ${table} (project_id, ${columns})`);
  }
}
