import { Migration } from "@mikro-orm/migrations";

/** What rollups of gains read of awards; of its own, since a lock that is missed undoes a migration. */
export class Migration20261126000601 extends Migration {
  override up(): void {
    this.addSql(
      `create index if not exists badge_awards_award_idx on badge_awards (project_id, id)
        where action = 'AWARDED'`,
    );
  }

  override down(): void {
    this.addSql(`drop index badge_awards_award_idx`);
  }
}
