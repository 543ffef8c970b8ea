import { Page } from "../ui/page.tsx";
export const Leaderboards = () => <Page title="Leaderboards">{null}</Page>;
export const LeaderboardPage = () => <Page title="LeaderboardPage">{null}</Page>;
