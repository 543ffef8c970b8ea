import { Page } from "../ui/page.tsx";
export const Quests = () => <Page title="Quests">{null}</Page>;
export const QuestPage = () => <Page title="QuestPage">{null}</Page>;
