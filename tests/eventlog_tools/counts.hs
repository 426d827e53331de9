-- Reads a log with GHC's own library and prints the number of events of each kind.
import qualified Data.Map.Strict as Map
import GHC.RTS.Events
import System.Environment (getArgs)

main :: IO ()
main = do
  [path] <- getArgs
  EventLog _ (Data events) <- either error id <$> readEventLogFromFile path
  let sort = head . words . show . evSpec
  mapM_ (\(name, count) -> putStrLn (name ++ " " ++ show count)) . Map.toList $ Map.fromListWith (+) [(sort e, 1 :: Int) | e <- events]
