# One image for scheduler, worker and Flower: the command says which.
FROM python:3.12-slim

RUN useradd --create-home tenxgraph
WORKDIR /app

COPY pyproject.toml README.md LICENSE ./
COPY shared shared
COPY scheduler scheduler
COPY worker worker
RUN pip install --no-cache-dir .

# Graphs are imported from the current folder.
COPY examples examples

USER tenxgraph
ENTRYPOINT ["tenxgraph"]
CMD ["--help"]
