import { Migration } from "@mikro-orm/migrations";

/**
 * By how long nothing has changed cycles of quests that are over, in a column that stays while a cycle goes
 * on: an index that names `updated_at`, be it of other rows, has every percent written to all indexes.
 */
export class Migration20261126000082 extends Migration {
  override up(): void {
    this.addSql(`drop index player_quests_over_idx`);
    this.addSql(`alter table player_quests add column over_at timestamptz(3)
      generated always as (case when is_live then null else updated_at end) stored`);
    this.addSql(`create index player_quests_over_idx on player_quests (over_at) where over_at is not null`);
  }

  override down(): void {
    this.addSql(`drop index player_quests_over_idx`);
    this.addSql(`alter table player_quests drop column over_at`);
    this.addSql(`create index player_quests_over_idx on player_quests (updated_at) where not is_live`);
  }
}
