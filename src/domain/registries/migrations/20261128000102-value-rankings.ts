import { Migration } from "@mikro-orm/migrations";

/** The ranking of the values of a breakdown's window that is over, while a worker makes it. */
export class Migration20261128000102 extends Migration {
  override up(): void {
    this.addSql(`alter table leaderboard_periods add column ranking jsonb`);
    this.addSql(`create index leaderboard_periods_ranking_idx on leaderboard_periods (project_id, close_at)
      where ranking is not null`);
  }

  override down(): void {
    this.addSql(`drop index leaderboard_periods_ranking_idx`);
    this.addSql(`alter table leaderboard_periods drop column ranking`);
  }
}
