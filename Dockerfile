# One image for scheduler, worker and Flower: the command says which.
FROM python:3.12-slim

RUN useradd --create-home tenxgraph
WORKDIR /app

COPY pyproject.toml README.md LICENSE ./
COPY shared shared
COPY scheduler scheduler
COPY worker worker
# The group is what the example needs; only a newer pip than some images have knows groups.
RUN pip install --no-cache-dir --upgrade 'pip>=25.1' && pip install --no-cache-dir . --group examples

# Graphs are imported from the current folder.
COPY examples examples

# The example writes its report there.
RUN mkdir build && chown tenxgraph build

USER tenxgraph
ENTRYPOINT ["tenxgraph"]
CMD ["--help"]
